//! The compiled programs.

/// Program at the ingress of the host-side interface: what an endpoint sends.
pub const FROM_CONTAINER: &str = "cil_from_container";
/// Program at the egress of the host-side interface: what the stack sends to an endpoint.
pub const TO_CONTAINER: &str = "cil_to_container";

/// The ELF object with both programs, their maps and BTF, aligned for the loader.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/endpoint.o"));

/// SHA-256 of [`OBJECT`]: names a build of the programs. Computed when the crate was built.
pub const fn build_hash() -> [u8; 32] {
    include!(concat!(env!("OUT_DIR"), "/hash.rs"))
}

/// The first 16 hexadecimal digits of [`build_hash`], the folder that holds the programs' pins.
pub fn build_name() -> String {
    build_hash()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
