//! Failures that users of node agents reported, provoked: those whose cause is logical. Each test
//! is called by the issue where the failure was reported: `c` is cilium/cilium, other repositories
//! go by their own name.
//!
//! | reported in | where it is tried |
//! |---|---|
//! | deckhouse 21647, c 38210, 23707, 27205 | here, `stall` |
//! | c 38998, 40696, 44855 | `endpoint::tests::policy`; lab `cases/faults` |
//! | c 29667, 19367 | lab `cases/restart` |
//! | c 15446 | `state::tests::crash`, and `restore::tests::crash` for a whole node; lab `cases/power_cut` |
//! | c 12367 | `restore::tests::lost`; lab `restart` |
//! | c 7120, 7053, 19360 | here, `verdicts` |
//! | c 28645 | here, `verdicts` |
//! | c 30651, 27210 | here, `scale` |
//! | c 24191, 24336 | here, `verdicts`; lab `upgrade` |
//! | c 30609 | lab `cases/restart` |
//! | c 28088, 26739, 35594 | lab `upgrade`; the agent's `ports::kernel::tests::upgrade` |
//! | c 13015, 13097 | lab `upgrade` |
//! | c 37077 | here, `stale` |
//! | c 9599, 39370 | `restore::tests::lost` |
//! | c 43635, 17047 | here, `stale` |
//! | c 9854, 9913 | lab `cases/cni` |
//! | c 22067 | lab `containerd`; the agent's `cni::tests::deleting` |
//! | c 31497, 39485 | here, `scale` |
//! | c 29795, 24987, 44307 | here, `scale`; lab `restart` |
//! | c 29405 | lab `cases/cni` |
//! | c 42482 | lab `cases/restart` |
//! | c 29588, 18776, 8247 | `cluster::tests` |
//! | kube-router 873, 2079 | lab `cases/cni` |
//! | antrea 313, 355, 442 | `restore::tests::lost` |
//!
//! For later, with what they are about: services (c 26912, 45441, calico 13279), a watch of
//! very many objects (calico 10670), another kvstore (c 42596, 9855), layer 7 and DNS
//! (c 35080, 38557, 21059, 16364, 30984, 48256), sockets of the host (c 45077, 40670).

mod enforcement;
mod scale;
mod stale;
mod stall;
mod verdicts;
