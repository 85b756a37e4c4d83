//! What is left out on PostgreSQL, or without the right to namespaces, is there.

use std::process::Command;

const LEFT_OUT: [&str; 2] =
    [include_str!("../left-out-on-postgres.txt"), include_str!("../needs-namespaces.txt")];

#[test]
fn every_name_that_is_left_out_is_one_of_a_test_and_says_why() {
    let own = std::env::current_exe().expect("the path of this test");
    let listed = Command::new(own).arg("--list").output().expect("it can be run");
    let listed = String::from_utf8(listed.stdout).expect("utf-8");
    let tests: Vec<&str> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    for list in LEFT_OUT {
        assert_known(list, &tests);
    }
}

fn assert_known(list: &str, tests: &[&str]) {
    let lines: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.is_sorted() && !lines.is_empty());
    for line in lines {
        let (name, reason) = line.split_once(": ").expect("a name and a reason");
        // The runners leave out whatever has the name in it.
        let left_out: Vec<_> = tests.iter().filter(|test| test.contains(name)).collect();
        assert!(!left_out.is_empty(), "no test is called {name}");
        let is_meant = |test: &str| if name.ends_with("::") { test.starts_with(name) } else { test == name };
        assert!(left_out.iter().all(|test| is_meant(test)), "{name}: {left_out:?}");
        assert!(!reason.trim().is_empty(), "{name}");
    }
}
