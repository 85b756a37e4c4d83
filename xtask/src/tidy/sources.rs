//! Rust files: a header, a bounded size, bounded functions, no bare notes to self, no sleeping tests.

use super::{Finding, SourceFile};

/// Lines of a file before its inline tests.
const FILE_LINES_MAX: usize = 800;
/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 70;
/// Files that are tables by nature.
const LONG_BY_NATURE: [&str; 0] = [];

pub(super) fn check(file: &SourceFile, findings: &mut Vec<Finding>) {
    let path = file.path.display().to_string();
    let mut report = |line: usize, what: &str| findings.push(Finding(format!("{path}:{line}: {what}")));
    let header = file.text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    if !header.is_some_and(|line| line.starts_with("//!")) {
        report(1, "does not start with //!");
    }
    let production = file.text.lines().take_while(|line| *line != "#[cfg(test)]").count();
    if production > FILE_LINES_MAX && !LONG_BY_NATURE.contains(&path.as_str()) {
        report(1, &format!("has {production} lines, limit {FILE_LINES_MAX}"));
    }
    for (line, name, length) in functions(&file.text) {
        if length > FUNCTION_LINES_MAX {
            report(line, &format!("{name} has {length} lines, limit {FUNCTION_LINES_MAX}"));
        }
    }
    let note = ["TO", "DO"].concat();
    let sleeps = ["thread::", "sleep("].concat();
    let sleeps_async = ["time::", "sleep("].concat();
    for (index, text) in file.text.lines().enumerate() {
        if text.contains(&note) && !text.contains(&format!("{note}(#")) {
            report(index + 1, "a note to self without an issue number");
        }
        let tests = path.contains("/tests/") || index >= production;
        if tests && (text.contains(&sleeps) || text.contains(&sleeps_async)) {
            report(index + 1, "a test that sleeps: move a clock or wait for a signal");
        }
    }
}

/// Functions with their first line and length. A function ends at the first closing brace in its own column.
fn functions(text: &str) -> Vec<(usize, String, usize)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let column = line.len() - line.trim_start().len();
        let starts = ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn ", "async fn ", "pub async fn "];
        let begins = starts.iter().any(|start| line.trim_start().starts_with(start));
        // What a trait only declares has no end.
        if open.is_none() && begins && !line.ends_with(';') {
            let name = line.trim().split('(').next().unwrap_or_default().to_owned();
            open = Some((index, column, name));
        }
        if let Some((begun, at, name)) = &open
            && line.trim_start().starts_with('}')
            && column == *at
        {
            found.push((begun + 1, name.clone(), index - begun + 1));
            open = None;
        }
    }
    found
}
