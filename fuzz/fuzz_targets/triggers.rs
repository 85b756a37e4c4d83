//! Triggers, deployments and the rotation of the secret.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::deployment::DeploymentBody;
use millpond_api::limits;
use millpond_api::signing_secret::RotateRequest;
use millpond_api::trigger::TriggerBody;

fuzz_target!(|body: &[u8]| {
    if let Ok(trigger) = TriggerBody::parse(body) {
        assert!(trigger.target.len() <= limits::TARGET_BYTES_MAX && !trigger.topic.is_empty());
    }
    if let Ok(deployment) = DeploymentBody::parse(body) {
        assert!((1..=limits::TRIGGERS_MAX).contains(&deployment.triggers.len()));
    }
    if let Ok(rotate) = RotateRequest::parse(body) {
        assert!(rotate.grace <= limits::SECRET_GRACE_MAX);
    }
});
