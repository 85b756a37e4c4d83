//! `millpond signing-secret`: what the pushes of an environment are signed with.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::Common;
use crate::confirm::Confirm;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{tell, when};
use crate::value::duration;

#[derive(Debug, Subcommand)]
pub(crate) enum SigningSecretCommand {
    /// Replace the secret; the one so far signs as well for a while
    Rotate(Rotate),
    /// Print the secret; it is made when it is first asked for
    Show(Show),
}

impl SigningSecretCommand {
    pub(crate) async fn run(&self) -> Outcome {
        match self {
            SigningSecretCommand::Rotate(command) => command.run().await,
            SigningSecretCommand::Show(command) => command.run().await,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    common: Common,
}

impl Show {
    async fn run(&self) -> Outcome {
        let secret = self.common.client()?.signing_secret().await;
        let secret = secret.map_err(|error| Failure::call("show the signing secret", &error))?;
        self.common.format.show(&secret, || secret.secret.clone())?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// How long the secret so far signs as well, up to 30 days; 0s ends it at once
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "24h")]
    grace: Duration,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    common: Common,
}

impl Rotate {
    async fn run(&self) -> Outcome {
        let what = "replace the signing secret";
        self.confirm.check(what)?;
        let client = self.common.client()?;
        if !self.confirm.is_given() {
            let grace = humantime::format_duration(self.grace);
            let question =
                format!("Replace the signing secret, so that the one so far signs for {grace} more?");
            self.confirm.ask(what, &question).await?;
        }
        let secret = client.rotate_signing_secret(Some(self.grace)).await;
        let secret = secret.map_err(|error| Failure::call(what, &error))?;
        if !self.common.format.json
            && let Some(until) = secret.previous_until
        {
            tell(&format!("the one so far signs as well until {}", when(until)));
        }
        self.common.format.show(&secret, || secret.secret.clone())?;
        Ok(Exit::Done)
    }
}
