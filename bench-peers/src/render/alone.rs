//! Sections of what only Millpond on PostgreSQL is asked.

use std::fmt::Write as _;

use serde_json::Value;

use super::thousands;

const MIB: f64 = 1_048_576.0;

/// The section of one report; `None`: it is of another kind.
pub(super) fn section(report: &Value) -> Option<String> {
    let mut out = String::new();
    match report["kind"].as_str()? {
        "sql" => sql(&mut out, report),
        "passed" => passed(&mut out, report),
        "held" => held(&mut out, report),
        "settling" => settling(&mut out, report),
        _ => return None,
    }
    Some(out)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A figure over all rounds.
fn spread(value: &Value) -> String {
    let part = |name: &str| thousands(number(&value[name]));
    format!("{} ({} to {})", part("median"), part("low"), part("high"))
}

fn mebibytes(bytes: &Value) -> String {
    format!("{:.0}", number(bytes) / MIB)
}

fn sql(out: &mut String, report: &Value) {
    let (settings, measured) = (&report["settings"], &report["measured"]);
    let _ = write!(
        out,
        "## Sends by SQL\n\n{}. {} connections, each with one statement a transaction, {} bytes of data; {} rounds of {} s in turns, medians \
         with lowest and highest.\n\n\
         | | commits/s | of plain inserts | p50 / p99, ms | database's processor µs a message | server's |\n\
         | --- | --- | --- | --- | --- | --- |\n",
        word(&report["version"]),
        settings["connections"],
        settings["data_bytes"],
        settings["rounds"],
        settings["seconds"],
    );
    let names = [
        ("same", "plain inserts of the rows that `send` writes"),
        ("own", "plain inserts into a small table of an application"),
        ("send_without_server", "`millpond.send`, without a server"),
        ("send", "`millpond.send`, taken in meanwhile"),
    ];
    let plain = number(&measured["same"]["messages_per_second"]["median"]);
    for (name, said) in names {
        let own = &measured[name];
        let median = |figure: &str| number(&own[figure]["median"]);
        let _ = writeln!(
            out,
            "| {said} | {} | {:.0} % | {:.2} / {:.2} | {:.0} | {} |",
            spread(&own["messages_per_second"]),
            median("messages_per_second") / plain * 100.0,
            median("p50_micros") / 1_000.0,
            median("p99_micros") / 1_000.0,
            median("database_cpu_micros_per_message"),
            own["server_cpu_micros_per_message"]["median"]
                .as_f64()
                .map_or(String::new(), |own| format!("{own:.0}")),
        );
    }
    let left = &measured["send"];
    let _ = writeln!(
        out,
        "\nWhen the last was committed, {} were not taken in yet; they were after {:.1} s.",
        thousands(number(&left["left_messages"]["median"])),
        number(&left["left_seconds"]["median"]),
    );
}

fn passed(out: &mut String, report: &Value) {
    let settings = &report["settings"];
    let _ = write!(
        out,
        "## Tables after many messages\n\n{}. {} callers send, lease and ack by the hundred, {} bytes of data. The last look is after {} s \
         without a load.\n\n\
         | messages that passed | messages/s until then | database, MiB | server's memory, MiB |\n| --- | --- | --- | --- |\n",
        word(&report["version"]),
        settings["connections"],
        settings["data_bytes"],
        settings["rest_seconds"],
    );
    let looks = report["measured"].as_array();
    for look in looks.into_iter().flatten() {
        let messages = number(&look["messages"]);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.0} |",
            thousands(messages),
            thousands(messages / number(&look["seconds"])),
            mebibytes(&look["database_bytes"]),
            number(&look["server_memory_kib"]) / 1_024.0,
        );
    }
    let relations = looks.and_then(|looks| looks.last()).and_then(|last| last["relations"].as_array());
    let largest = relations.into_iter().flatten().take(6);
    let largest: Vec<_> = largest
        .map(|relation| format!("`{}` {}", word(&relation["name"]), mebibytes(&relation["bytes"])))
        .collect();
    let _ = writeln!(out, "\nThe largest at the end, in MiB: {}.", largest.join(", "));
}

fn held(out: &mut String, report: &Value) {
    let (settings, measured) = (&report["settings"], &report["measured"]);
    let _ = write!(
        out,
        "## Beside a transaction that stays open\n\n{}. Another transaction (`repeatable read`, with an id) is open for {} windows of {} s, \
         with a restart of the server in the middle; {} callers, {}, {} bytes of data. The stop took {:.2} s, and {:.2} s after the start a \
         message was leased.\n\n\
         | | messages/s | p50 / p99, ms | database's processor µs a message | database, MiB |\n| --- | --- | --- | --- | --- |\n",
        word(&report["version"]),
        settings["windows"],
        settings["window_seconds"],
        settings["connections"],
        word(&settings["load"]),
        settings["data_bytes"],
        number(&measured["stop_seconds"]),
        number(&measured["first_answer_seconds"]),
    );
    for window in measured["windows"].as_array().into_iter().flatten() {
        let _ = writeln!(
            out,
            "| {} | {} | {:.2} / {:.2} | {:.0} | {} |",
            word(&window["when"]),
            thousands(number(&window["messages_per_second"])),
            number(&window["p50_micros"]) / 1_000.0,
            number(&window["p99_micros"]) / 1_000.0,
            number(&window["database_cpu_micros_per_message"]),
            mebibytes(&window["database_bytes"]),
        );
    }
}

fn settling(out: &mut String, report: &Value) {
    let (settings, measured) = (&report["settings"], &report["measured"]);
    let _ = write!(
        out,
        "## Beside transactions that complete messages\n\n{}. {} transactions that have each completed a message stay open for {} s, while {} \
         others a second go from sender to handler in the same environment, and heartbeats, nacks, cancellations and purges of what is held \
         come over HTTP. {} rounds in turns; medians with lowest and highest, in µs.\n\n\
         | transactions | p50 | p99 | those calls' p50 | their p99 |\n| --- | --- | --- | --- | --- |\n",
        word(&report["version"]),
        settings["held"],
        settings["seconds"],
        settings["rate"],
        settings["rounds"],
    );
    for (name, said) in [("without", "ended"), ("with", "open")] {
        let own = &measured[name];
        let figures = ["p50_micros", "p99_micros", "calls_p50_micros", "calls_p99_micros"];
        let cells: Vec<_> = figures.iter().map(|figure| spread(&own[figure])).collect();
        let _ = writeln!(out, "| {said} | {} |", cells.join(" | "));
    }
}
