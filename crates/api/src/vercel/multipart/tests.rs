//! What is read as a batch, and what is written to the byte.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const B: &str = "vqs-1";

fn payloads(body: &str) -> Result<Vec<String>, String> {
    let parts = parse(body.as_bytes(), B).map_err(|error| error.detail)?;
    Ok(parts.iter().map(|part| String::from_utf8_lossy(part.payload).into_owned()).collect())
}

/// What a client writes.
fn written(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (headers, payload) in parts {
        out.extend_from_slice(format!("--{B}\r\n{headers}\r\n").as_bytes());
        out.extend_from_slice(payload);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{B}--\r\n").as_bytes());
    out
}

#[test]
fn a_boundary_is_read_out_of_a_content_type() {
    for (content_type, boundary) in [
        ("multipart/mixed; boundary=vqs-1", "vqs-1"),
        ("Multipart/Mixed;charset=utf-8; Boundary = \"a b:c\" ", "a b:c"),
        ("multipart/mixed;boundary=a=b;x=y", "a=b"),
    ] {
        assert_eq!(boundary_of(content_type).as_deref(), Ok(boundary), "{content_type}");
    }
    let (longest, longer) = ("b".repeat(70), "b".repeat(71));
    assert!(boundary_of(&format!("multipart/mixed; boundary={longest}")).is_ok());
    for content_type in [
        "",
        "multipart/form-data; boundary=a",
        "multipart/mixed",
        "multipart/mixed; boundary=",
        "multipart/mixed; boundary=\"\"",
        "multipart/mixed; boundary=\"a \"",
        "multipart/mixed; boundary=a\"b",
        "multipart/mixed; boundary=é",
        &format!("multipart/mixed; boundary={longer}"),
    ] {
        assert!(boundary_of(content_type).is_err(), "{content_type}");
    }
}

#[test]
fn parts_come_in_order_with_their_headers() {
    let body = written(&[
        ("content-type: text/plain\r\nvqs-delay-seconds:  5 \r\n", b"one"),
        ("Content-Type: application/json\r\n", b""),
        ("", b"\r\n--vqs-1x\r\n--vqs-\r\n"),
    ]);
    let parts = parse(&body, B).expect("well-formed");
    assert_eq!(parts.len(), 3);
    assert_eq!(parts[0].header("Content-Type"), Some(&b"text/plain"[..]));
    assert_eq!(parts[0].header("vqs-delay-seconds"), Some(&b"5"[..]));
    assert_eq!((parts[0].payload, parts[1].payload), (&b"one"[..], &b""[..]));
    assert_eq!(parts[2].header("content-type"), None);
    assert_eq!(parts[2].payload, b"\r\n--vqs-1x\r\n--vqs-\r\n");
}

#[test]
fn what_rfc_2046_allows_is_read() {
    for (body, expected) in [
        ("--vqs-1\r\n\r\na\r\n--vqs-1--", &["a"][..]),
        ("before\r\n--vqs-1 \t\r\n\r\na\r\n--vqs-1--\r\nbehind\r\n--vqs-1\r\n", &["a"]),
        ("\r\n--vqs-1\r\n\r\na\r\n--vqs-1--", &["a"]),
        ("--vqs-1\r\na: b\r\n\r\n--vqs-1\r\n\r\n\r\n--vqs-1--", &["", ""]),
        ("--vqs-1\r\n\r\na\n--vqs-1--\r\n--vqs-1--", &["a\n--vqs-1--"]),
    ] {
        let found = payloads(body).expect(body);
        assert_eq!(found, expected, "{body:?}");
    }
}

#[test]
fn what_is_not_whole_is_refused() {
    for (body, reason) in [
        ("", "no boundary"),
        ("--other\r\n\r\na\r\n--other--", "no boundary"),
        ("--vqs-1", "no boundary"),
        ("--vqs-1x\r\n\r\na\r\n--vqs-1x--", "no boundary"),
        ("--vqs-1\r\n", "do not end"),
        ("--vqs-1\r\na: b\r\n", "do not end"),
        ("--vqs-1\r\n\r\na", "no end"),
        ("--vqs-1\r\n\r\na\r\n--vqs-1", "no end"),
        ("--vqs-1\r\nno colon\r\n\r\na\r\n--vqs-1--", "no name"),
        ("--vqs-1\r\n: b\r\n\r\na\r\n--vqs-1--", "no name"),
        ("--vqs-1\r\na b: c\r\n\r\na\r\n--vqs-1--", "no name"),
        ("--vqs-1--", "1 to 100 parts"),
    ] {
        let error = payloads(body).expect_err(body);
        assert!(error.contains(reason), "{body:?}: {error}");
    }
}

#[test]
fn parts_and_headers_have_their_limits() {
    let many = |count: usize| parse(&written(&vec![("", &b"x"[..]); count]), B).map(|parts| parts.len());
    assert_eq!(many(VERCEL_BATCH_MESSAGES_MAX), Ok(100));
    assert_eq!(many(VERCEL_BATCH_MESSAGES_MAX + 1).expect_err("too many").limit.as_deref(), Some("100"));
    let lines = |count: usize| parse(&written(&[(&"a: b\r\n".repeat(count), b"")]), B).is_ok();
    assert!(lines(VERCEL_PART_HEADERS_MAX) && !lines(VERCEL_PART_HEADERS_MAX + 1));
    // With "a: ", the line's end and the empty line behind it.
    let wide =
        |bytes: usize| parse(&written(&[(&format!("a: {}\r\n", "x".repeat(bytes - 7)), b"")]), B).is_ok();
    assert!(wide(VERCEL_PART_HEADER_BYTES_MAX) && !wide(VERCEL_PART_HEADER_BYTES_MAX + 1));
}

fn delivered(content_type: &str) -> Delivered<'_> {
    Delivered {
        message_id: "msg_1",
        receipt_handle: "h",
        delivery_count: 3,
        sent_at: 0,
        expires_at: 86_400_000,
        content_type,
    }
}

#[test]
fn messages_are_written_to_the_byte_as_clients_want_them() {
    let mut out = Vec::new();
    for payload in [&b"hi"[..], b""] {
        push_part_head(&mut out, B, &delivered("text/plain"));
        out.extend_from_slice(payload);
        out.extend_from_slice(PART_END);
    }
    push_end(&mut out, B);
    let head = "--vqs-1\r\nContent-Type: text/plain\r\nVqs-Message-Id: msg_1\r\nVqs-Receipt-Handle: h\r\n\
                Vqs-Timestamp: 1970-01-01T00:00:00.000Z\r\nVqs-Delivery-Count: 3\r\n\
                Vqs-Expires-At: 1970-01-02T00:00:00.000Z\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(&out), format!("{head}hi\r\n{head}\r\n--vqs-1--"));
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(payloads in vec(vec(any::<u8>(), 0..40), 1..8)) {
        let mut body = Vec::new();
        for payload in &payloads {
            push_part_head(&mut body, "B-0f", &delivered("a/b"));
            body.extend_from_slice(payload);
            body.extend_from_slice(PART_END);
        }
        push_end(&mut body, "B-0f");
        let parts = parse(&body, "B-0f").expect("what is written is well-formed");
        let read: Vec<_> = parts.iter().map(|part| part.payload.to_vec()).collect();
        prop_assert_eq!(read, payloads);
        prop_assert!(parts.iter().all(|part| part.header("vqs-delivery-count") == Some(b"3")));
    }

    #[test]
    fn payloads_of_dashes_and_line_breaks_are_read_back(payload in "(\r\n|\n|--|-|vqs|vqs-1x|:|a){0,30}") {
        let body = written(&[("a: b\r\n", payload.as_bytes()), ("", b"x")]);
        let parts = parse(&body, B).expect("well-formed");
        prop_assert_eq!(parts.len(), 2);
        prop_assert_eq!(parts[0].payload, payload.as_bytes());
    }

    #[test]
    fn any_body_is_read_or_refused(noise in "(--vqs-1|--vqs-1--|\r\n|a: b|[a-z:\u{e9}]){0,20}") {
        if let Ok(parts) = parse(noise.as_bytes(), B) {
            prop_assert!((1..=VERCEL_BATCH_MESSAGES_MAX).contains(&parts.len()));
        }
    }
}
