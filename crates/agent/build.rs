//! Compiles the agents' contract (`proto/gavotte/agents`) without an outside protobuf compiler.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new("../../proto");
    let files = ["gavotte/agents/agent.proto", "gavotte/agents/data.proto"];
    for file in files {
        println!("cargo:rerun-if-changed={}", root.join(file).display());
    }
    let contract = protox::compile(files, [root])?;
    tonic_prost_build::configure().compile_fds(contract)?;
    Ok(())
}
