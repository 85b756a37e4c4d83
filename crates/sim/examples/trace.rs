fn main() {
    let seed: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    match millpond_sim::run(seed, millpond_sim::Trace::recording()) {
        Ok((_, trace)) => trace.lines().iter().for_each(|l| println!("{l}")),
        Err(f) => {
            f.trace.lines().iter().for_each(|l| println!("{l}"));
            println!("{f}");
        }
    }
}
