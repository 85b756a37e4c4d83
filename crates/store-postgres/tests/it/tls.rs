//! TLS to a real PostgreSQL, with certificates made here by `openssl`.

use std::fs;
use std::path::Path;
use std::process::Command;

use millpond_store_postgres::{PostgresFactory, PostgresSettings};
use millpond_test_postgres::Cluster;

use crate::failures::{DATABASE, sql};

const PASSWORD: &str = "correct-horse";

/// Runs `openssl` in a directory.
fn openssl(directory: &Path, arguments: &str) {
    let output = Command::new("openssl").current_dir(directory).args(arguments.split(' ')).output();
    let output = output.expect("openssl is installed");
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority of this name, and its certificate for 127.0.0.1 that is good for so many days.
fn certify(directory: &Path, authority: &str, name: &str, days: i32) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    if !directory.join(format!("{authority}.crt")).exists() {
        openssl(
            directory,
            &format!(
                "req -x509 {key} -keyout {authority}.key -out {authority}.crt -days 30 -subj /CN={authority}"
            ),
        );
    }
    openssl(directory, &format!("req {key} -keyout {name}.key -out {name}.csr -subj /CN=database"));
    fs::write(directory.join("names"), "subjectAltName=IP:127.0.0.1").expect("it can be written");
    let signs =
        format!("-CA {authority}.crt -CAkey {authority}.key -CAcreateserial -extfile names -days {days}");
    openssl(directory, &format!("x509 -req -in {name}.csr -out {name}.crt {signs}"));
}

/// Makes the cluster speak TLS with this certificate, and take nothing else from anybody but who sets it up.
fn protect(cluster: &mut Cluster, directory: &Path, name: &str) {
    for (end, to) in [("crt", "server.crt"), ("key", "server.key")] {
        let text = fs::read_to_string(directory.join(format!("{name}.{end}"))).expect("it was made");
        // By the server itself, which has to own its key.
        let place = cluster.data_dir().join(to);
        let made = format!(
            "copy (select unnest(string_to_array('{}', '|'))) to program 'umask 077; cat > {}'",
            text.trim_end().replace('\n', "|"),
            place.display()
        );
        sql(cluster, &made);
    }
    sql(cluster, "alter system set ssl = on");
    let rules = "hostssl all millpond 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n";
    fs::write(cluster.data_dir().join("pg_hba.conf"), rules).expect("it can be written");
    // A reload would be taken in some time later.
    cluster.stop().expect("it runs");
    cluster.run().expect("it can be started");
}

fn open(cluster: &Cluster, options: &str) -> Result<(), String> {
    let url = format!("postgres://millpond:{PASSWORD}@127.0.0.1:{}/{DATABASE}?{options}", cluster.port());
    open_url(&url)
}

fn open_url(url: &str) -> Result<(), String> {
    let opened = PostgresFactory::open(url, PostgresSettings::default());
    opened.map(drop).map_err(|error| {
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        let said = format!("{error}: {source} {error:?}");
        assert!(!said.contains(PASSWORD), "{said}");
        said
    })
}

fn cluster() -> Cluster {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    sql(&cluster, &format!("create role millpond login password '{PASSWORD}'"));
    sql(&cluster, &format!("grant create on database {DATABASE} to millpond"));
    cluster
}

#[test]
fn a_connection_is_protected_as_sslmode_says() {
    let (mut cluster, directory) = (cluster(), tempfile::tempdir().expect("a directory can be made"));
    let directory = directory.path();
    certify(directory, "ours", "good", 1);
    certify(directory, "theirs", "other", 1);
    certify(directory, "ours", "old", -1);
    let refused = open(&cluster, "sslmode=require").expect_err("the server has no TLS");
    assert!(refused.to_lowercase().contains("tls") && refused.contains("sslmode=require"), "{refused}");

    protect(&mut cluster, directory, "good");
    let ours = format!("sslrootcert={}", directory.join("ours.crt").display());
    let theirs = format!("sslrootcert={}", directory.join("theirs.crt").display());
    for options in ["sslmode=prefer", "sslmode=require", ""] {
        open(&cluster, options).expect(options);
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        open(&cluster, &format!("sslmode={mode}&{ours}")).expect(mode);
        let refused =
            open(&cluster, &format!("sslmode={mode}&{theirs}")).expect_err("nobody knows the authority");
        assert!(refused.contains("UnknownIssuer") && refused.contains("sslmode="), "{refused}");
    }
    // What cannot be had is refused, not passed over: see the known issues.
    let refused = open(&cluster, "sslmode=require&channel_binding=require").expect_err("it is not supported");
    assert!(refused.contains("channel binding"), "{refused}");
    assert!(open(&cluster, "sslmode=disable").expect_err("it takes TLS only").contains("pg_hba.conf"));
    assert!(
        open(&cluster, "sslmode=verify-full").expect_err("no public authority").contains("UnknownIssuer")
    );
    let named = |mode| {
        let port = cluster.port();
        open_url(&format!("postgres://millpond:{PASSWORD}@localhost:{port}/{DATABASE}?sslmode={mode}&{ours}"))
    };
    named("verify-ca").expect("the name is not looked at");
    assert!(named("verify-full").expect_err("the name is another one").contains("NotValidForName"));

    protect(&mut cluster, directory, "old");
    open(&cluster, "sslmode=require").expect("nobody looks at it");
    assert!(
        open(&cluster, &format!("sslmode=verify-ca&{ours}")).expect_err("it is over").contains("Expired")
    );
}
