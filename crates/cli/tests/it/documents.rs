//! The documents and the command line say the same.

use std::collections::BTreeSet;
use std::path::Path;

use crate::process::{Ran, millpond, run};
use crate::schema;

/// Commands that print no JSON: a server and a script.
const WITHOUT_JSON: [&str; 2] = ["completions", "serve"];

/// Every command that can be run, its words joined by spaces, with its help.
fn commands() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(words) = open.pop() {
        let help = Ran::of(run(millpond().args(&words).arg("--help"))).done();
        let below: Vec<String> = match help.split_once("\nCommands:\n") {
            None => Vec::new(),
            Some((_, rest)) => {
                let lines = rest.lines().take_while(|line| !line.is_empty());
                lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
            }
        };
        if below.is_empty() {
            found.push((words.join(" "), help));
        }
        for name in below.into_iter().filter(|name| name != "help") {
            let mut words = words.clone();
            words.push(name);
            open.push(words);
        }
    }
    found.sort();
    found
}

#[test]
fn every_command_has_its_section_in_the_document_and_no_other() {
    let page = include_str!("../../../../docs/cli.md");
    let described: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("### millpond ")).collect();
    let commands = commands();
    let there: BTreeSet<&str> = commands.iter().map(|(name, _)| name.as_str()).collect();
    assert!(there.len() >= 24, "{there:?}");
    assert_eq!(described, there);
}

#[test]
fn every_option_is_named_in_the_section_of_its_command() {
    let page = include_str!("../../../../docs/cli.md");
    let everywhere = ["--help", "--server", "--environment", "--json", "--version"];
    for (name, help) in commands() {
        let heading = format!("\n### millpond {name}\n");
        let (_, section) = page.split_once(&heading).unwrap_or_else(|| panic!("{name} has a section"));
        let section = section.split("\n##").next().unwrap_or_default();
        let options = help.lines().filter_map(|line| {
            let line = line.trim_start();
            let long = line.strip_prefix("-y, ").or(line.strip_prefix("-h, ")).unwrap_or(line);
            long.starts_with("--").then(|| long.split([' ', '\n']).next().unwrap_or_default())
        });
        for option in options.filter(|option| !everywhere.contains(option)) {
            assert!(section.contains(option), "{name}: {option}");
        }
    }
}

#[test]
fn every_command_has_its_schema_and_every_schema_its_command() {
    let names: BTreeSet<String> = commands()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !WITHOUT_JSON.contains(&name.as_str()))
        .map(|name| name.replace(' ', "-"))
        .collect();
    let files = std::fs::read_dir(schema::directory()).expect("the schemas");
    let schemas: BTreeSet<String> = files
        .filter_map(|file| Some(Path::new(&file.ok()?.file_name()).file_stem()?.to_str()?.to_owned()))
        .collect();
    assert_eq!(names, schemas);
    for (name, help) in commands() {
        assert_eq!(help.contains("--json"), !WITHOUT_JSON.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn exit_codes_are_documented() {
    let page = include_str!("../../../../docs/cli.md");
    let table = page.split("## Exit codes").nth(1).expect("the section");
    let codes: Vec<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(' ').next())
        .filter(|code| code.parse::<u8>().is_ok())
        .collect();
    assert_eq!(codes, ["0", "1", "2", "3", "4", "130"]);
}
