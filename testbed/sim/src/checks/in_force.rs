//! Whether what was told is in force before the node is at rest.

use crate::world::node::Node;

impl Node {
    /// Whatever was told is in force with all but a pod of which nothing is written.
    pub(crate) fn check_in_force(&mut self) {
        let (kernel, hung) = (self.world.kernel.clone(), self.faults.hung);
        if let Some(old) = kernel.with(|state| self.oracle.borrow_mut().current(state, hung)) {
            self.wrong(format!("what was told is not in force: {old}"));
        }
    }
}
