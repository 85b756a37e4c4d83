//! Prints the OpenAPI document, as it is served and kept in `docs/openapi.json`.

fn main() {
    print!("{}", millpond_server::openapi::text());
}
