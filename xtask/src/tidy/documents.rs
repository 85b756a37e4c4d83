//! Documents: one title each, and links that lead somewhere.

use std::path::Path;

use super::{Finding, SourceFile};

pub(super) fn check(root: &Path, file: &SourceFile, findings: &mut Vec<Finding>) {
    let path = file.path.display();
    let mut code = false;
    let mut titles = 0;
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with("```") {
            code = !code;
        }
        if code {
            continue;
        }
        titles += usize::from(line.starts_with("# "));
        for target in links(line) {
            let target = target.split('#').next().unwrap_or_default();
            let outside = target.is_empty() || target.contains("://") || target.starts_with("mailto:");
            let from = root.join(&file.path);
            let there = from.parent().is_some_and(|folder| folder.join(target).exists());
            if !outside && !there {
                findings.push(Finding(format!("{path}:{}: link to {target} leads nowhere", index + 1)));
            }
        }
    }
    let change = file.path.starts_with("changes");
    if titles != 1 && !change {
        findings.push(Finding(format!("{path}:1: has {titles} titles, wants one")));
    }
}

/// Targets of the inline links of a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}
