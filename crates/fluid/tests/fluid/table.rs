//! Flow lists and finish times as files.

use gavotte_fluid::{FlowTable, write_finish};
use proptest::prelude::*;

const HOSTS: [&str; 3] = ["vm0", "vm1", "1"];

fn read(text: &str) -> Result<FlowTable, String> {
    FlowTable::read(text.as_bytes(), &HOSTS).map_err(|error| error.to_string())
}

#[test]
fn hosts_go_by_name_and_by_number() {
    let table = read("id,source,target,bytes,start_s\na,vm0,2,10,0\nb, 1 ,vm1,2e6,0.5\n").expect("sound");
    assert_eq!(table.id, ["a".into(), "b".into()]);
    assert_eq!(
        (table.source, table.target),
        (vec![0, 2], vec![2, 1]),
        "a name comes before a number"
    );
    assert_eq!((table.bytes, table.start_s), (vec![10, 2_000_000], vec![0.0, 0.5]));
    let table = read("id,source,target,bytes,start_s\na,vm0,vm1,5MB,0\nb,vm0,vm1,1.001 kB,0\nc,vm0,vm1,2gb,0\n")
        .expect("units");
    assert_eq!(table.bytes, vec![5_000_000, 1001, 2_000_000_000]);
    assert_eq!((table.weight, table.cap_bps), (None, None));
}

#[test]
fn columns_go_by_name_too() {
    let table = read("\u{feff}start_s,cap_bps,dst,src,bytes,weight,id\n1,,0,2,3,2.5,x\n1,0,0,2,3,1,y\n1,8,0,2,3,1,z");
    let table = table.expect("sound");
    assert_eq!((table.source, table.target), (vec![2; 3], vec![0; 3]));
    assert_eq!(table.cap_bps, Some(vec![f64::INFINITY, f64::INFINITY, 8.0]));
    assert_eq!(table.weight, Some(vec![2.5, 1.0, 1.0]));
}

#[test]
fn mistakes_name_line_field_and_remedy() {
    let wrong =
        |row: &str| read(&format!("id,source,target,bytes,start_s\n0,0,1,1,0\n{row}\n")).expect_err("a mistake");
    let host = "line 3: source: no host `vm9`; use a host of the network or a number from 0 to 2";
    assert_eq!(wrong("1,vm9,1,1,0"), host);
    assert_eq!(
        wrong("1,0,1,-5,0"),
        "line 3: bytes: `-5` is not a size; write a whole number of bytes, or e.g. 5MB"
    );
    assert_eq!(
        wrong("1,0,1,5,soon"),
        "line 3: start_s: `soon` does not fit; write seconds from 0 on"
    );
    assert_eq!(wrong("1,0,1,5"), "line 3: start_s: is missing; fill it in");
    assert_eq!(wrong("0,0,1,5,0"), "id: `0` names two flows; give each its own");
    let header = |text: &str| read(text).expect_err("a mistake");
    assert_eq!(
        header("id,source,bytes,start_s"),
        "line 1: the column `target` is missing; add it"
    );
    assert_eq!(
        header("id,source,src,target,bytes,start_s"),
        "line 1: the column `source` appears twice"
    );
    assert!(
        header("id,source,target,bytes,start").starts_with("line 1: there is no column `start`; the columns are id")
    );
    assert_eq!(
        header(""),
        "the flow list is empty; its first line is `id,source,target,bytes,start_s`"
    );
    assert!(FlowTable::read(&b"id,source,target,bytes,start_s\n\xff,0,0,0,0"[..], &HOSTS).is_err());
}

#[test]
fn finish_times_are_written_in_full() {
    let mut written = Vec::new();
    write_finish(&mut written, [("a", 0.1 + 0.2), ("b,c", f64::NAN), ("d", 3.0)]).expect("memory");
    assert_eq!(
        String::from_utf8(written).expect("text"),
        "id,finish_s\na,0.30000000000000004\n\"b,c\",\nd,3\n"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = FlowTable::read(&bytes[..], &HOSTS);
    }

    #[test]
    fn no_row_makes_it_panic(rows in prop::collection::vec("[0-9a-z.,\"+-]{0,20}", 0..8)) {
        let _ = read(&format!("id,source,target,bytes,start_s,cap_bps,weight\n{}", rows.join("\n")));
    }
}

#[test]
fn hosts_are_found_without_regard_to_case() {
    let text = "id,source,target,bytes,start_s\na,node01,NODE_2,5,0\n";
    let table = FlowTable::read(text.as_bytes(), &["Node01", "node_2"]).expect("both hosts");
    assert_eq!((table.source, table.target), (vec![0], vec![1]));
}
