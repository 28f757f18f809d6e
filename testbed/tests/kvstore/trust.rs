//! An etcd that wants to see certificates and a password.

use std::fs;

use anyhow::{Result, ensure};
use volvox_testbed::lab::{self, Authority, Etcd, Node, Validity, wait_for};

use super::village::{Village, announce};

const PASSWORD: &str = "nobody-knows";

/// Writes the file by which the agent finds etcd.
fn write_config(node: &Node, password: &str, authority: &str) -> Result<()> {
    let file = |name: &str| node.path("certificates").join(name).display().to_string();
    let text = format!(
        "endpoints: [\"https://127.0.0.1:2379\"]\ntrusted-ca-file: {}\ncert-file: {}\n\
         key-file: {}\nusername: node\npassword: {password}\n",
        file(authority),
        file("node.pem"),
        file("node.key"),
    );
    Ok(fs::write(node.path("etcd.yaml"), text)?)
}

/// A village whose etcd lets in who has a certificate of its authority, and the password.
fn guarded() -> Result<(Village, Authority)> {
    let mut signed = None;
    let village = Village::found_by(|node| {
        let authority = Authority::found(&node.path("certificates"))?;
        for name in ["etcd", "lab", "node"] {
            authority.sign(name, Validity::Today)?;
        }
        let mut etcd = Etcd::start_guarded(&node.path("etcd"), &authority)?;
        etcd.share_with(node)?;
        etcd.want_password("node", PASSWORD, "cilium")?;
        write_config(node, PASSWORD, "ca.pem")?;
        let option = format!("etcd.config={}", node.path("etcd.yaml").display());
        node.set_flag("kvstore-opt", Some(&option));
        signed = Some(authority);
        Ok(etcd)
    })?;
    let authority = signed.expect("it was founded");
    Ok((village, authority))
}

/// Waits until the agent says why it does not share the store, in these words.
fn wait_for_reason(village: &Village, words: &[&str]) -> Result<()> {
    let said = std::cell::RefCell::new(String::new());
    let waited = wait_for("the agent says what is wrong", || {
        said.replace(village.text("why")?);
        Ok(words.iter().all(|word| said.borrow().contains(word)))
    });
    ensure!(waited.is_ok(), "not said: {words:?}; it says {}", said.borrow());
    Ok(())
}

#[test]
fn a_wrong_password_is_named_and_a_right_one_needs_no_restart() {
    lab::test("trust::a_wrong_password_is_named_and_a_right_one_needs_no_restart", || {
        let (mut village, _) = guarded()?;
        village.wait_for_announcement()?;
        let lets_in = village.lets_in()?;
        village.node.kill_agent()?;
        write_config(&village.node, "guessed", "ca.pem")?;
        village.node.start_agent()?;
        village.node.wait_for_ready(1)?;
        village.wait_for_store("Failure")?;
        wait_for_reason(&village, &["password", "etcd.config"])?;
        ensure!(village.address("10.99.0.1/32")? == Some(40_000), "an address is forgotten");
        ensure!(village.lets_in()? == lets_in, "{lets_in:?} became {:?}", village.lets_in()?);
        write_config(&village.node, PASSWORD, "ca.pem")?;
        announce(&village.etcd, "10.99.0.2", 40_000)?;
        village.wait_for_address("10.99.0.2/32", Some(40_000))?;
        village.wait_for_store("Ok")
    });
}

#[test]
fn certificates_that_are_over_missing_or_of_others_are_named() {
    lab::test("trust::certificates_that_are_over_missing_or_of_others_are_named", || {
        let (mut village, authority) = guarded()?;
        village.wait_for_announcement()?;
        // The server's is over.
        authority.sign("etcd", Validity::Over)?;
        village.etcd.kill()?;
        village.etcd.start_again()?;
        village.wait_for_store("Failure")?;
        wait_for_reason(&village, &["certificate expired", "etcd.config"])?;
        ensure!(village.address("10.99.0.1/32")? == Some(40_000), "an address is forgotten");
        authority.sign("etcd", Validity::Today)?;
        village.etcd.kill()?;
        village.etcd.start_again()?;
        village.wait_for_store("Ok")?;
        // Ours is over; the agent reads it when it first connects, and when it does so in vain.
        authority.sign("node", Validity::Over)?;
        village.node.kill_agent()?;
        village.node.start_agent()?;
        village.wait_for_store("Failure")?;
        wait_for_reason(&village, &["takes this node's certificate", "etcd.config"])?;
        authority.sign("node", Validity::Today)?;
        village.wait_for_store("Ok")?;
        // Nobody knows who signed the server's.
        write_config(&village.node, PASSWORD, "nowhere.pem")?;
        village.node.kill_agent()?;
        village.node.start_agent()?;
        wait_for_reason(&village, &["nowhere.pem"])?;
        let other = Authority::found(&village.node.path("others"))?;
        fs::copy(other.place().join("ca.pem"), authority.place().join("nowhere.pem"))?;
        wait_for_reason(&village, &["invalid peer certificate", "etcd.config"])?;
        write_config(&village.node, PASSWORD, "ca.pem")?;
        announce(&village.etcd, "10.99.0.2", 40_000)?;
        village.wait_for_address("10.99.0.2/32", Some(40_000))?;
        village.wait_for_store("Ok")
    });
}
