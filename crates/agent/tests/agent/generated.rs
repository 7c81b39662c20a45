//! The sources in `generated/` are what `proto/` compiles to. They are files, since building the crates that
//! compile contracts takes 16 s of processor time. `make proto` renews them, with `GAVOTTE_RENEW` set.

use std::fs;
use std::path::Path;

use crate::support::Scratch;

const CONTRACTS: [&str; 2] = ["gavotte/agents/agent.proto", "gavotte/agents/data.proto"];

#[test]
fn generated_sources_match_the_contract() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let contract = protox::compile(CONTRACTS, [package.join("../../proto")]).unwrap();
    let scratch = Scratch::new();
    let (agent, client) = (scratch.folder("agent"), scratch.folder("client"));
    tonic_prost_build::configure()
        .build_client(false)
        .out_dir(&agent)
        .compile_fds(contract.clone())
        .unwrap();
    // Only tests call agents from Rust.
    tonic_prost_build::configure()
        .build_server(false)
        .extern_path(".gavotte.agents", "::gavotte_agent::contract::agents")
        .extern_path(".gavotte.data", "::gavotte_agent::contract::data")
        .out_dir(&client)
        .compile_fds(contract)
        .unwrap();
    let files = [
        (agent.join("gavotte.agents.rs"), "agents.rs"),
        (agent.join("gavotte.data.rs"), "data.rs"),
        (client.join("gavotte.agents.rs"), "client.rs"),
    ];
    for (made, name) in files {
        let (made, kept) = (fs::read_to_string(made).unwrap(), package.join("generated").join(name));
        if std::env::var_os("GAVOTTE_RENEW").is_some() {
            fs::write(&kept, &made).unwrap();
        }
        let same = fs::read_to_string(&kept).unwrap_or_default() == made;
        assert!(same, "{name} is not what proto/ compiles to; run `make proto`");
    }
}
