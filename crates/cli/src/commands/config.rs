//! `millpond config print`: the settings in force, and where each comes from. It takes the options of `serve`, so that a
//! command line can be tried before it is used.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory as _, Subcommand};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::connection::Connection;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Format, Table, print, print_json};
use crate::serve_arguments::{RUST_LOG, ServeArguments};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting with its value and where that comes from
    Print(Print),
}

#[derive(Debug, Args)]
pub(crate) struct Print {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    serve: ServeArguments,
    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Setting {
    name: String,
    value: Option<String>,
    source: &'static str,
    variable: String,
    used_by: &'static str,
}

impl ConfigCommand {
    /// `matches` are those of the whole command line: only they know where a value comes from.
    pub(crate) fn run(self, matches: &ArgMatches) -> Outcome {
        let ConfigCommand::Print(command) = self;
        let own = matches.subcommand().and_then(|(_, config)| config.subcommand()).map(|(_, own)| own);
        let mut settings = own.map(settings).unwrap_or_default();
        if let Some(log) = settings.iter_mut().find(|setting| setting.name == "log") {
            let (name, filter) = command.serve.log_in_force();
            log.value = Some(filter);
            if name == RUST_LOG {
                (log.source, log.variable) = ("environment", RUST_LOG.to_owned());
            }
        }
        let refuse =
            |error: &dyn std::fmt::Display| Failure::usage("cannot use these settings", error.to_string());
        command.connection.client()?;
        command.serve.log_filter().map_err(|error| refuse(&error))?;
        command.serve.settings().resolve().map_err(|error| refuse(&error))?;
        if command.format.json {
            settings.iter().try_for_each(print_json)?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new(&["SETTING", "VALUE", "FROM", "USED BY"]);
        for setting in settings {
            let from = match setting.source {
                "environment" => format!("environment ({})", setting.variable),
                other => other.to_owned(),
            };
            let value = setting.value.unwrap_or_else(|| "(none)".to_owned());
            table.row([setting.name, value, from, setting.used_by.to_owned()]);
        }
        print(&table.render())?;
        Ok(Exit::Done)
    }
}

/// A connection string whose password is not shown.
fn without_password(url: &str) -> String {
    let hidden = |text: &str| text.to_owned() + ":***";
    if let Some((scheme, rest)) = url.split_once("://") {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let user = user.split_once(':').map_or_else(|| user.to_owned(), |(user, _)| hidden(user));
        let at = if user.is_empty() { "" } else { "@" };
        let path: Vec<_> = path.split('&').map(hide_parameter).collect();
        return format!("{scheme}://{user}{at}{host}{}", path.join("&"));
    }
    url.split_whitespace().map(hide_parameter).collect::<Vec<_>>().join(" ")
}

/// A parameter whose value is not shown if it is a password.
fn hide_parameter(parameter: &str) -> String {
    match parameter.split_once("password=") {
        Some((before, _)) => format!("{before}password=***"),
        None => parameter.to_owned(),
    }
}

/// Every option that can come from the environment is a setting.
fn settings(matches: &ArgMatches) -> Vec<Setting> {
    let command = Arguments::command();
    let print = command.find_subcommand("config").and_then(|config| config.find_subcommand("print"));
    let serve = command.find_subcommand("serve");
    let arguments = print.into_iter().flat_map(clap::Command::get_arguments);
    let mut settings = Vec::new();
    for argument in arguments {
        let (Some(name), Some(variable)) = (argument.get_long(), argument.get_env()) else { continue };
        let id = argument.get_id().as_str();
        let values: Vec<String> = matches
            .get_raw(id)
            .map(|values| values.map(|value| value.to_string_lossy().into_owned()).collect())
            .unwrap_or_default();
        let source = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => "command line",
            Some(ValueSource::EnvVariable) => "environment",
            _ => "default",
        };
        // It may hold a password.
        let values = match name {
            "database-url" => values.iter().map(|url| without_password(url)).collect(),
            _ => values,
        };
        let of_server = serve.is_some_and(|serve| serve.get_arguments().any(|other| other.get_id() == id));
        settings.push(Setting {
            name: name.to_owned(),
            value: (!values.is_empty()).then(|| values.join(",")),
            source,
            variable: variable.to_string_lossy().into_owned(),
            used_by: if of_server { "serve" } else { "other commands" },
        });
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown_wherever_it_stands() {
        for (url, shown) in [
            ("postgres://u:secret@h:1/d?sslmode=require", "postgres://u:***@h:1/d?sslmode=require"),
            ("postgres://u@h/d", "postgres://u@h/d"),
            ("postgres://h/d?user=u&password=secret&x=y", "postgres://h/d?user=u&password=***&x=y"),
            ("postgres://h?password=secret", "postgres://h?password=***"),
            ("host=h user=u password=secret", "host=h user=u password=***"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
