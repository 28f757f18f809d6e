//! The words of the language, each with what it means: the reader, the schema and the words of errors all
//! come from this one table.

/// What a value looks like.
pub(super) enum Shape {
    /// Anything that is one line.
    Text,
    /// The name of a pod, or of a pod in a namespace.
    Pod,
    /// A pod, or `service/NAME`.
    Target,
    /// A pod, or KIND/NAME of a manifest.
    Object,
    /// A number, from here to there.
    Whole(i64, i64),
    /// `20ms`, `2s`, `1m`.
    Time,
    /// `8MB`, `900kB`, or `well`: as much as there is.
    Memory,
    /// A number, or `any`: not judged.
    Limit,
    /// Texts by name.
    Labels,
    /// Labels by the name of a pod.
    Pods,
    /// A manifest as kubectl takes it.
    Manifest,
    /// One of these.
    Choice(&'static [Choice]),
    List(&'static Shape),
    /// One alone, or a list.
    Many(&'static Shape),
    /// Words with values, in any order.
    Fields(&'static [Field]),
    /// One of these words with its value. Those of [`Shape::Alone`] and [`Shape::MayBeAlone`] can have none.
    Word(&'static [Field]),
    /// A word that stands alone.
    Alone,
    /// A word that may stand alone.
    MayBeAlone(&'static Shape),
    /// One value, or words with values.
    Either(&'static Shape, &'static Shape),
}

/// A value of a few, and what it means.
pub(super) struct Choice(pub(super) &'static str, pub(super) &'static str);

/// A word, and what it means.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) shape: Shape,
    pub(super) must: bool,
}

const fn may(name: &'static str, about: &'static str, shape: Shape) -> Field {
    Field { name, about, shape, must: false }
}

const fn must(name: &'static str, about: &'static str, shape: Shape) -> Field {
    Field { name, about, shape, must: true }
}

/// More than anybody repeats.
const MANY: i64 = 10_000;

/// A whole history.
pub(super) static HISTORY: Shape = Shape::Fields(&[
    must("about", "what the history is about, in one line", Shape::Text),
    may("reported", "where it was reported: repository and number, or a page", Shape::Text),
    may("node", "the node on which the agent runs", Shape::Fields(NODE)),
    may("servers", "which servers the agent has", Shape::List(&Shape::Choice(SERVERS))),
    may("pods", "the pods at the beginning, each with its labels", Shape::Pods),
    may(
        "manifests",
        "policies and services, as kubectl applies them, that are there at the beginning",
        Shape::List(&Shape::Manifest),
    ),
    may("traffic", "what goes on all the time", Shape::List(&TRAFFIC)),
    must("steps", "what happens, one after the other", Shape::List(&STEP)),
    may("expect", "what is judged, if not as usual", Shape::Fields(EXPECT)),
]);

const NODE: &[Field] = &[may("flags", "flags of the agent", Shape::Labels)];

const SERVERS: &[Choice] = &[
    Choice("etcd", "identities are shared in an etcd"),
    Choice("api-server", "pods, policies and services are objects of an API server, not files"),
    Choice("containerd", "the agent follows a containerd"),
];

static TRAFFIC: Shape = Shape::Fields(&[
    must("from", "the pod that sends", Shape::Pod),
    must("to", "the pod that answers, or service/NAME", Shape::Target),
    must("kind", "what is sent", Shape::Choice(KINDS)),
    may("port", "the port that it goes to, 80 if none is said", Shape::Whole(1, 65_535)),
    may("family", "by which addresses, ipv4 if none is said", Shape::Choice(FAMILIES)),
    may("expected", "whether it should arrive, flows if it is not said", Shape::Choice(EXPECTED)),
    may("rate", "how many a second, 200 if it is not said", Shape::Whole(1, 5_000)),
]);

const KINDS: &[Choice] = &[
    Choice("udp", "numbered datagrams, each echoed"),
    Choice("tcp", "records on one connection that stays, each echoed"),
    Choice("ping", "ICMP echo requests"),
    Choice("connect", "a new TCP connection each time, for one byte"),
];

const FAMILIES: &[Choice] = &[Choice("ipv4", "IPv4"), Choice("ipv6", "IPv6")];

const EXPECTED: &[Choice] = &[
    Choice("flows", "nothing of it is lost"),
    Choice("denied", "nothing of it gets through"),
    Choice("any", "it is not judged"),
];

/// A step.
pub(super) static STEP: Shape = Shape::Word(&[
    may("create", "a pod is made", Shape::Fields(CREATE)),
    may("cancel", "a pod is begun to be made, and who makes it gives up", Shape::Fields(CANCEL)),
    may("crash", "an actor of the agent panics; in the simulator", Shape::Choice(ACTORS)),
    may("delete", "a pod is deleted, or a manifest as KIND/NAME", Shape::Object),
    may("label", "a pod has other labels", Shape::Fields(CREATE)),
    may("apply", "manifests are applied", Shape::Many(&Shape::Manifest)),
    may("traffic", "more traffic begins", Shape::Many(&TRAFFIC)),
    may("wait", "until it is so", Shape::Choice(WAITS)),
    may("sleep", "time passes", Shape::Either(&Shape::Time, &Shape::Fields(WITHIN))),
    may("kill", "the agent is killed by SIGKILL", Shape::MayBeAlone(&Shape::Fields(KILL))),
    may("stop", "the agent is stopped by SIGTERM", Shape::Alone),
    may("start", "the agent is started; nobody waits for it", START),
    may("restart", "the agent is killed, started, and all pods get ready", START),
    may("flags", "flags that agents have from their next start on", Shape::Labels),
    may(
        "reach",
        "a TCP connection is tried: it is established, or it is denied",
        Shape::Fields(REACH),
    ),
    may("upgrade", "another build takes over, and all pods get ready", UPGRADE),
    may("fault", "something goes wrong, or is well again", Shape::Word(FAULTS)),
    may("repeat", "steps that are done several times", Shape::Fields(REPEAT)),
]);

/// The same without what makes no sense of one connection.
const REACH: &[Field] = &[
    must("from", "the pod that connects", Shape::Pod),
    must("to", "the pod that it connects to, or service/NAME", Shape::Target),
    may("port", "the port that it goes to, 80 if none is said", Shape::Whole(1, 65_535)),
    may("family", "by which address, ipv4 if none is said", Shape::Choice(FAMILIES)),
    may("expected", "whether it arrives, flows if it is not said", Shape::Choice(REACHED)),
];

const REACHED: &[Choice] =
    &[Choice("flows", "somebody answers"), Choice("denied", "nobody answers")];

const UPGRADE: Shape = Shape::Either(
    &Shape::Choice(BUILDS),
    &Shape::Fields(&[
        must("to", "which build", Shape::Choice(BUILDS)),
        may("killed", "it dies on the way, as said of start", Shape::Many(&Shape::Fields(DEATH))),
    ]),
);

const CREATE: &[Field] =
    &[must("pod", "its name", Shape::Pod), may("labels", "its labels", Shape::Labels)];

const CANCEL: &[Field] = &[
    must("pod", "its name", Shape::Pod),
    may("labels", "its labels", Shape::Labels),
    may("after", "so long after it was begun", Shape::Time),
    may("within", "a part of this time after it was begun, by the seed", Shape::Time),
];

const ACTORS: &[Choice] = &[
    Choice("endpoints", "who owns the endpoints"),
    Choice("identities", "who owns the identities"),
    Choice("ipam", "who owns the addresses"),
    Choice("ipcache", "who owns which identity an address has"),
    Choice("policy", "who owns the policies"),
    Choice("services", "who owns the services"),
    Choice("any", "one of all, as the seed chooses"),
];

const WITHIN: &[Field] = &[may("within", "a part of this time, by the seed", Shape::Time)];

const WAITS: &[Choice] = &[
    Choice("ready", "the agent calls every pod's endpoint ready"),
    Choice("applied", "all manifests are in force"),
    Choice("dead", "the agent has died as it was told"),
];

const START: Shape = Shape::MayBeAlone(&Shape::Fields(&[may(
    "killed",
    "it dies on the way, as said, and is started again; of several deaths one after the other",
    Shape::Many(&Shape::Fields(DEATH)),
)]));

const KILL: &[Field] = &[
    may("before", "it dies before a call of this name, such as bpf", Shape::Text),
    may("nth", "the how manieth of them in a thread, from now on", Shape::Whole(1, 1_000_000)),
    may(
        "messages",
        "behind so many messages between actors, and steps of kernel and disk; in the simulator",
        Shape::Whole(1, 1_000_000),
    ),
    may("after", "so long from now", Shape::Time),
    may("within", "a part of this time from now, by the seed", Shape::Time),
    may("then", "what becomes of who died before a call", Shape::Choice(THEN)),
];

const THEN: &[Choice] = &[Choice("start", "another one is started at once, as a kubelet does it")];

const DEATH: &[Field] = &[
    may("before", "before a system call of this name, such as bpf", Shape::Text),
    may(
        "nth",
        "the how manieth of them in a thread, the first if it is not said",
        Shape::Whole(1, 1_000_000),
    ),
    may(
        "every",
        "before the first, then so many further, and so on until none is left",
        Shape::Whole(1, 1_000_000),
    ),
    may("after", "so long after its start", Shape::Time),
    may("within", "a part of this time after its start, by the seed", Shape::Time),
    may("at", "as soon as it has come so far", Shape::Choice(PHASES)),
];

const PHASES: &[Choice] = &[
    Choice("api", "its API answers"),
    Choice("ready", "every pod's endpoint is ready"),
    Choice("restored", "it has restored all that an earlier life left"),
];

const BUILDS: &[Choice] = &[
    Choice("other", "an agent whose programs differ"),
    Choice("usual", "the one of the beginning"),
];

const FAULTS: &[Field] = &[
    may("disk", "the disk of the state directory", Shape::Choice(DISK)),
    may("state-directory", "what the agent has on disk", Shape::Choice(STATE)),
    may("log", "where the agent writes its log, from its next start on", Shape::Choice(LOG)),
    may("etcd", "the etcd, and the way to it", Shape::Choice(ETCD)),
    may("api-server", "the API server, and the way to it", Shape::Choice(API_SERVER)),
    may("containerd", "the containerd", Shape::Choice(CONTAINERD)),
    may("cpu", "the processor of the agent that runs", Shape::Choice(CPU)),
    may("descriptors", "files that the agent that runs may open", Shape::Choice(TAKEN)),
    may("threads", "threads that the agent that runs may start", Shape::Choice(TAKEN)),
    may(
        "memory",
        "what agents may have from their next start on, such as 8MB, or well",
        Shape::Memory,
    ),
    may(
        "clock",
        "what the clock on the wall says to agents; clocks of timers go on",
        Shape::Either(&Shape::Choice(CLOCK), &Shape::Fields(STEPS_OF_CLOCK)),
    ),
    may("route-removed", "somebody removes the routes to this pod", Shape::Pod),
    may(
        "rules",
        "routing rules of the agent, which it has a minute after its start",
        Shape::Choice(RULES),
    ),
    may("interface-removed", "somebody removes the interface of this pod", Shape::Pod),
    may("record-torn", "what the disk has of this pod is torn", Shape::Pod),
    may("row-added", "somebody adds rows of nobody to a map of the kernel", Shape::Choice(ADDED)),
    may("recording", "the file of the flight recorder", Shape::Choice(RECORDING)),
    may("links-removed", "somebody removes the pinned links of this pod's programs", Shape::Pod),
    may("program-added", "somebody's program runs in front of ours at this pod", Shape::Pod),
    may("row-removed", "somebody removes rows from a map of the kernel", Shape::Fields(ROW)),
];

const DISK: &[Choice] = &[
    Choice("full", "it is full"),
    Choice("read-only", "it cannot be written to"),
    Choice("failing", "whatever is asked of it is an error (EIO)"),
    Choice("slow", "what the agent that runs writes takes 200 ms to be safe"),
    Choice("power-cut", "its power fails: what was not synced is lost, and the agent dies"),
    Choice("well", "it works again"),
];

const STATE: &[Choice] = &[Choice("lost", "it is empty")];

const LOG: &[Choice] = &[
    Choice("full", "every write fails: there is no space"),
    Choice("well", "it can be written to"),
];

const KILLED: Choice = Choice("killed", "it is killed");
const STOPPED: Choice = Choice("stopped", "it takes connections and says nothing");
const SLOW: Choice = Choice("slow", "each part of a connection takes 250 ms");
const CUT_OFF: Choice = Choice("cut-off", "nothing gets through, and nobody says so; it goes on");
const HALF_OPEN: Choice =
    Choice("half-open", "who is connected at that moment never hears anything again");
const BUSY: Choice = Choice("busy", "every request is answered with status 429");
const FAILING: Choice = Choice("failing", "every request is answered with status 503");
const RUBBISH: Choice = Choice("rubbish", "every request is answered with what means nothing");
const WELL: Choice = Choice("well", "it works again, with what it had");

const ETCD: &[Choice] = &[
    KILLED,
    STOPPED,
    SLOW,
    CUT_OFF,
    HALF_OPEN,
    BUSY,
    FAILING,
    RUBBISH,
    Choice("leases-end", "every lease ends, as if its time were over"),
    Choice("saved", "a snapshot of it is saved"),
    Choice("restored", "it is killed, and comes back with what was saved"),
    WELL,
];

const API_SERVER: &[Choice] =
    &[KILLED, STOPPED, SLOW, CUT_OFF, HALF_OPEN, BUSY, FAILING, RUBBISH, WELL];

const CONTAINERD: &[Choice] = &[KILLED, STOPPED, WELL];

const CPU: &[Choice] =
    &[Choice("taken", "it has none: the agent stands still"), Choice("well", "it has one again")];

const TAKEN: &[Choice] =
    &[Choice("taken", "not one more than it has"), Choice("well", "as many as usual")];

const CLOCK: &[Choice] = &[Choice("well", "it is right again, at once")];

const STEPS_OF_CLOCK: &[Field] = &[
    may("ahead", "so far in the future, at once", Shape::Time),
    may("back", "so far in the past, at once", Shape::Time),
];

const RULES: &[Choice] = &[Choice("removed", "somebody removes them")];

const ADDED: &[Choice] = &[Choice("lxc", "cilium_lxc: pods of this node")];

const RECORDING: &[Choice] = &[Choice("truncated", "somebody cuts it to nothing")];

const ROW: &[Field] = &[
    must("map", "the map", Shape::Choice(MAPS)),
    must("pod", "the pod that the rows are about", Shape::Pod),
];

const MAPS: &[Choice] = &[
    Choice("lxc", "cilium_lxc: pods of this node"),
    Choice("ipcache", "cilium_ipcache_v2: identities of addresses"),
];

static REPEAT: &[Field] =
    &[must("times", "how often", Shape::Whole(1, MANY)), must("steps", "what", Shape::List(&STEP))];

/// What is judged.
pub(super) const EXPECT: &[Field] = &[
    may("lost", "packets and connections that are lost of what should flow; 0", Shape::Limit),
    may("let-through", "packets that get through where they should be denied; 0", Shape::Limit),
    may("moved", "pods whose number, identity or address moved; 0", Shape::Limit),
    may("dips", "hooks that were once without a program; 0", Shape::Limit),
    may("leaks", "things that are left when all pods are deleted; 0", Shape::Limit),
    may(
        "differences",
        "things that volvox verify names in the end, of each guarantee; 0",
        Shape::Limit,
    ),
    may(
        "writes",
        "rows and links that a further restart writes, with nothing changed; not asked",
        Shape::Limit,
    ),
    may("ready", "the longest from a start until all pods are ready; not asked", Shape::Time),
    may("api", "the longest from a start until the API answers; not asked", Shape::Time),
    may(
        "guarantees",
        "judge what these guarantees say, by their numbers, and no other",
        Shape::List(&Shape::Whole(1, 10)),
    ),
];
