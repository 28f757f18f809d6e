//! What is not as it should be with the node's devices.

use volvox_actors::devices::DevicesStatus;

use super::troubles::Trouble;

/// What is wrong: names that no interface has, interfaces that cannot run programs, what fails.
pub(super) fn troubles(status: &DevicesStatus) -> Vec<Trouble> {
    let missing = status.missing.iter().map(|name| {
        let text = format!(
            "--devices names {name}, and there is no such interface: what comes by it is not seen \
             until there is one"
        );
        Trouble::new(format!("device-{name}"), 0, text)
    });
    let passed_over = status.passed_over.iter().map(|(name, why)| {
        let text = format!(
            "interface {name} leads out and runs no programs, {why}: what goes by it is not \
             masqueraded, and services are not reached through it; name others by --devices"
        );
        Trouble::new(format!("device-{name}"), 0, text)
    });
    let failing = status.failing.iter().map(|(name, why)| {
        let text = format!("device {name} is not as it is to be: {why}; tried again");
        Trouble::new(format!("device-{name}"), 1, text)
    });
    let failed = status.last_error.iter().map(|error| {
        let text = format!("the node's devices are not as they are to be: {error}; tried again");
        Trouble::new("devices", 1, text)
    });
    let behind = status.devices.iter().filter_map(|device| {
        let trouble = device.trouble.as_ref()?;
        let text = format!(
            "device {}: {trouble}: ours are put before it; if that stays so, see what attaches it",
            device.name
        );
        Some(Trouble::new(format!("device-{}", device.name), 1, text))
    });
    let mount = status.mount.iter().map(|text| Trouble::new("bpf-file-system", 1, text.clone()));
    missing.chain(mount).chain(passed_over).chain(behind).chain(failing).chain(failed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_at_which_something_fails_is_named() {
        let failing = [("eth0".to_owned(), "attach: no memory".to_owned())].into();
        let status = DevicesStatus { failing, ..DevicesStatus::default() };
        let [trouble] = troubles(&status).try_into().unwrap();
        assert_eq!(trouble.name, "device-eth0");
        assert_eq!(
            trouble.text,
            "device eth0 is not as it is to be: attach: no memory; tried again"
        );
    }
}
