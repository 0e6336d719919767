fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut o = bedload::ImportOptions::new(&a[1], &a[2]);
    o.restart = true;
    if let Some(m) = a.get(3) { o.memory = Some(m.parse::<u64>().unwrap() << 20); }
    if let Some(m) = a.get(4) { o.verify = m != "none"; }
    match bedload::import(&o, &bedload::progress::Silent) {
        Ok(bedload::Outcome::Imported(r)) => { let mut r = *r; r.samples.clear(); println!("{}", serde_json::to_string_pretty(&r).unwrap()); }
        Ok(o) => println!("{o:?}"),
        Err(e) => { use std::error::Error; println!("{e}: {:?}", e.source()); }
    }
}
