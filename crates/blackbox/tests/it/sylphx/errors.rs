//! S25: every error is a problem of RFC 9457 with a code of one closed set.

use serde_json::json;

use super::{Bed, Q};

#[test]
fn s25_a_refused_field_is_told_with_its_value_and_limit() {
    let mut bed = Bed::new(json!({}));
    let lease = format!("{Q}:lease");
    let problem = bed.post_refused(&lease, json!({ "max_messages": 101 }), 400, "invalid_field");
    assert_eq!(problem["field"], "max_messages");
    assert_eq!((&problem["value"], &problem["limit"]), (&json!("101"), &json!("100")));
}
