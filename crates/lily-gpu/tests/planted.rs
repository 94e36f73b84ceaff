//! Faults planted into plans of the full-size model: each is caught, and called by its name.

mod support;

use lily_gpu::{
    Dispatch, View,
    check::{AppleFamily, Checker, FaultKind, Plan, Plans},
};
use support::{FullSize, metal};

/// What is done to each launch: with how many of its name came before it.
type Edit<'a> = Box<dyn Fn(&mut Dispatch, usize) + 'a>;

struct Planted<'a> {
    what: &'static str,
    kind: FaultKind,
    edit: Edit<'a>,
}

/// An edit of all launches of a name.
fn all<'a>(label: &'static str, edit: impl Fn(&mut Dispatch) + 'a) -> Edit<'a> {
    Box::new(move |dispatch, _| {
        if dispatch.label == label {
            edit(dispatch);
        }
    })
}

/// An edit of one of them.
fn one<'a>(label: &'static str, at: usize, edit: impl Fn(&mut Dispatch) + 'a) -> Edit<'a> {
    Box::new(move |dispatch, place| {
        if dispatch.label == label && place == at {
            edit(dispatch);
        }
    })
}

fn binding(dispatch: &Dispatch, name: &str) -> usize {
    let bindings = &dispatch.kernel.signature().bindings;
    bindings.iter().position(|binding| binding.name == name).expect("an argument")
}

fn bound(dispatch: &Dispatch, name: &str) -> View {
    dispatch.bindings[binding(dispatch, name)].view.clone()
}

fn bind(dispatch: &mut Dispatch, name: &str, view: View) {
    let at = binding(dispatch, name);
    dispatch.bindings[at].view = view;
}

fn swap(dispatch: &mut Dispatch, one: &str, other: &str) {
    let (first, second) = (bound(dispatch, one), bound(dispatch, other));
    bind(dispatch, one, second);
    bind(dispatch, other, first);
}

/// Edits a parameter.
fn param(dispatch: &mut Dispatch, name: &str, edit: impl Fn(u32) -> u32) {
    let fields = &dispatch.kernel.signature().params.as_ref().expect("parameters").fields;
    let at = 4 * fields.iter().position(|(field, _)| field == name).expect("a parameter");
    let value = u32::from_le_bytes(dispatch.params[at..at + 4].try_into().expect("four bytes"));
    dispatch.params[at..at + 4].copy_from_slice(&edit(value).to_le_bytes());
}

/// The launch of a name, of which so many came before.
fn launch<'a>(plan: &'a Plan, label: &str, at: usize) -> &'a Dispatch {
    let mut named = plan.recording.dispatches().iter().filter(|dispatch| dispatch.label == label);
    named.nth(at).expect("a launch")
}

#[track_caller]
fn catch(checker: &Checker, plan: &Plan, faults: Vec<Planted<'_>>) {
    assert_eq!(checker.check_plan(plan), [], "{}", plan.name);
    for planted in faults {
        let mut seen = std::collections::HashMap::<String, usize>::new();
        let recording = plan.recording.edited(|dispatch| {
            let place = seen.entry(dispatch.label.to_string()).or_default();
            (planted.edit)(dispatch, *place);
            *place += 1;
        });
        let found = checker.check_plan(&Plan { recording, ..plan.clone() });
        let kinds: Vec<FaultKind> = found.iter().map(|fault| fault.kind).collect();
        assert!(kinds.contains(&planted.kind), "{}: {:?} is not among {kinds:?}", planted.what, planted.kind);
    }
}

fn planted<'a>(what: &'static str, kind: FaultKind, edit: Edit<'a>) -> Planted<'a> {
    Planted { what, kind, edit }
}

fn plans(full: &FullSize) -> (Plans, Checker) {
    metal(&full.checkpoint, AppleFamily::Apple7)
}

#[test]
fn grids_and_parameters_of_a_token() {
    use FaultKind::{Condition, Grid, Overlong, Unused};
    let full = FullSize::new();
    let (plans, checker) = plans(&full);
    let plan = plans.step(40_000).expect("recorded");
    let mut faults = Vec::new();
    for label in [
        "embedding",
        "gdn.in_proj",
        "gdn.step",
        "attention.blocks",
        "attention.out_proj",
        "moe.router_shared",
        "moe.expert_gate_up",
        "moe.expert_down",
        "choice.blocks",
        "choice.choose",
    ] {
        faults.push(planted("a group too many", Grid, one(label, 0, |dispatch| dispatch.groups[0] += 1)));
        faults.push(planted("a group too few", Grid, one(label, 0, |dispatch| dispatch.groups[0] -= 1)));
    }
    for groups in [3, 5] {
        faults.push(planted("combine's y", Grid, all("attention.combine", move |d| d.groups[1] = groups)));
    }
    faults.extend([
        planted(
            "a row of the output",
            Overlong,
            all("attention.in_proj", |d| param(d, "rows", |rows| rows - 1)),
        ),
        planted(
            "a row of the residual",
            Unused,
            all("attention.out_proj", |d| param(d, "rows", |rows| rows - 1)),
        ),
        planted("blocks", Condition, all("attention.combine", |d| param(d, "blocks", |blocks| blocks - 1))),
        planted("capacity", Condition, all("attention.blocks", |d| param(d, "capacity", |_| 40_000))),
        planted(
            "router_groups",
            Condition,
            all("moe.router_shared", |d| param(d, "router_groups", |n| n - 1)),
        ),
    ]);
    catch(&checker, &plan, faults);
}

#[test]
fn bindings_of_a_token() {
    use FaultKind::{Layer, Lost, Role, Unwritten};
    let full = FullSize::new();
    let (plans, checker) = plans(&full);
    let plan = &plans.step(4096).expect("recorded");
    let keys = bound(launch(plan, "attention.blocks", 0), "keys");
    let taken = |label, from, to| {
        let bindings = launch(plan, label, from).bindings.clone();
        one(label, to, move |dispatch| dispatch.bindings.clone_from(&bindings))
    };
    let exchanged = |layer: usize| -> Edit<'_> {
        let place = |label| launch(plan, label, layer).place;
        let (blocks, combine) = (place("attention.blocks"), place("attention.combine"));
        Box::new(move |dispatch, _| {
            dispatch.place = match dispatch.place {
                place if place == blocks => combine,
                place if place == combine => blocks,
                place => place,
            };
        })
    };
    catch(
        &checker,
        plan,
        vec![
            planted("k and v", Role, all("attention.blocks", |d| swap(d, "k", "v"))),
            planted("keys and values", Role, all("attention.blocks", |d| swap(d, "keys", "values"))),
            planted("a and b", Role, all("gdn.step", |d| swap(d, "a", "b"))),
            planted("a_log and dt_bias", Role, all("gdn.step", |d| swap(d, "a_log", "dt_bias"))),
            planted("scales and biases", Role, all("gdn.in_proj", |d| swap(d, "scales", "biases"))),
            planted("gate and up", Role, all("moe.expert_gate_up", |d| swap(d, "gw", "uw"))),
            planted("the norms of q and k", Role, all("attention.blocks", |d| swap(d, "q_gain", "k_gain"))),
            planted(
                "the norm after for the one before",
                Role,
                one("gdn.in_proj", 0, |dispatch| {
                    bind(dispatch, "gain", bound(launch(plan, "moe.router_shared", 0), "gain"));
                }),
            ),
            planted("one cache", Layer, all("attention.blocks", |d| bind(d, "keys", keys.clone()))),
            // Of the layers 36 and 38, the 28th and 30th of their kind.
            planted("another layer's projection", Layer, taken("gdn.in_proj", 27, 29)),
            planted("another layer's state", Layer, taken("gdn.step", 27, 29)),
            planted("another layer's router", Layer, taken("moe.router_shared", 38, 39)),
            planted("another layer's experts", Layer, taken("moe.expert_gate_up", 38, 39)),
            planted(
                "the shared expert over the others",
                Unwritten,
                all("moe.router_shared", |dispatch| {
                    let h = bound(dispatch, "h");
                    bind(dispatch, "h", h.buffer().view(0, h.bytes()));
                }),
            ),
            planted("joined before there is anything", Unwritten, exchanged(0)),
            planted("joined before the blocks", Lost, exchanged(3)),
        ],
    );
}

#[test]
fn a_chunk() {
    use FaultKind::{Condition, Grid, Layer, Overlong, Role, Unwritten};
    let full = FullSize::new();
    let (plans, checker) = plans(&full);
    let plan = &plans.chunk(1025, 500).expect("recorded");
    let constants = |tile| [("EXPERTS", 256), ("TOP_K", 8), ("RENORMALISE", 1), ("TILE", tile)];
    let model = plans.model();
    let scan = |tile| model.kernel("route", &constants(tile), "route_scan").expect("a kernel");
    let own = launch(plan, "moe.scan", 0).kernel.key();
    let tile = [16, 32, 64].into_iter().find(|&tile| scan(tile).key() == own).expect("a tile");
    let doubled = scan(2 * tile);
    let first = bound(launch(plan, "attention.attend", 0), "keys");
    catch(
        &checker,
        plan,
        vec![
            planted("the last rows", Grid, all("attention.attend", |d| d.groups[0] -= 1)),
            planted("the last rows of a product", Grid, all("gdn.in_proj", |d| d.groups[1] -= 1)),
            planted("rows of the norm", Grid, all("moe.norm", |d| d.groups[0] -= 1)),
            planted("rows of the embedding", Grid, all("embedding", |d| d.groups[0] -= 1)),
            planted("a row", Overlong, all("moe.top_k", |d| param(d, "rows", |rows| rows - 1))),
            planted(
                "heads of the cache",
                Condition,
                all("attention.attend", |d| param(d, "kv_head", |_| 1525 * 256)),
            ),
            planted(
                "heads of the new rows",
                Condition,
                all("attention.qk", |d| param(d, "kv_head", |_| 1525 * 256)),
            ),
            planted("tiles of twice the rows", Condition, all("moe.scan", |d| d.kernel = doubled.clone())),
            planted("keys and values", Role, all("attention.qk", |d| swap(d, "keys", "values"))),
            planted("scales and biases", Role, all("moe.down", |d| swap(d, "scales", "biases"))),
            planted("one cache", Layer, all("attention.attend", |d| bind(d, "keys", first.clone()))),
            planted(
                "a result that is not there",
                Unwritten,
                all("attention.attend", |dispatch| {
                    let q = bound(dispatch, "q");
                    let spare = lily_gpu::Buffer::new(q.bytes(), "spare", ());
                    bind(dispatch, "q", spare.whole());
                }),
            ),
        ],
    );
}
