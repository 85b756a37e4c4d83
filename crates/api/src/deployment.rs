//! Deployments: triggers that are put and removed together.

use serde::Serialize;

use crate::input_error::{Fault, InputError};
use crate::limits::{DEPLOYMENT_ID_BYTES_MAX, TRIGGERS_MAX};
use crate::name::check_topic_id;
use crate::queue::as_time;
use crate::reader::Node;
use crate::trigger::{Trigger, TriggerBody};
use crate::writer;

/// Fields that a client sets.
pub(crate) const DEPLOYMENT_NAMES: &[&str] = &["triggers"];

/// Triggers that take the place of a deployment's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentBody {
    /// Its triggers, in their order: 1 to [`TRIGGERS_MAX`].
    pub triggers: Vec<TriggerBody>,
}

impl DeploymentBody {
    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<DeploymentBody, InputError> {
        let root = Node::root(body)?;
        let triggers = root.object(DEPLOYMENT_NAMES)?.require("triggers")?;
        let triggers = triggers.list(1..=TRIGGERS_MAX)?.map(|node| TriggerBody::read(&node));
        Ok(DeploymentBody { triggers: triggers.collect::<Result<_, _>>()? })
    }
}

/// Checks the id of a deployment: that of a partition, and short enough for the ids of its triggers.
pub fn check_deployment_id(id: &str) -> Result<(), Fault> {
    if id.len() <= DEPLOYMENT_ID_BYTES_MAX && check_topic_id(id).is_ok() {
        return Ok(());
    }
    let expected = format!("1 to {DEPLOYMENT_ID_BYTES_MAX} letters, digits, '_' and '-'");
    Err(if id.len() > DEPLOYMENT_ID_BYTES_MAX {
        Fault::beyond(DEPLOYMENT_ID_BYTES_MAX, expected)
    } else {
        Fault::new(expected)
    })
}

/// The id of the n-th trigger of a deployment, from 1.
pub fn trigger_id(deployment: &str, number: usize) -> String {
    format!("{deployment}-{number}")
}

/// A deployment as it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deployment {
    /// `orgs/{o}/projects/{p}/envs/{e}/deployments/{d}`.
    pub name: String,
    /// Its id.
    pub deployment_id: String,
    /// It is the one deployed last, which reads what was sent by none.
    pub current: bool,
    /// When it was last deployed, in Unix milliseconds.
    #[serde(serialize_with = "as_time")]
    pub create_time: i64,
    /// Its triggers, in the order in which they were given.
    pub triggers: Vec<Trigger>,
}

impl Deployment {
    /// The resource as JSON.
    pub fn render(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and structs serialize")
    }
}

/// All deployments of an environment.
pub fn render_deployments(deployments: &[Deployment]) -> String {
    let mut out = String::from("{");
    writer::push_name(&mut out, "deployments");
    writer::push_list(&mut out, deployments, |out, deployment| out.push_str(&deployment.render()));
    out.push('}');
    out
}
