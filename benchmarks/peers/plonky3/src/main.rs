//! Plonky3 at the task that `benchmarks/peers/peers.py` gives it:
//!
//!     tailbite-peer-plonky3 fibonacci|keccak LOG_ROWS LOG_BLOWUP QUERIES POW_BITS REPEATS
//!
//! fibonacci: 16 pairs (a, b) -> (b, a + b) side by side, 32 columns. keccak: the Keccak AIR of p3-keccak-air on
//! floor(2^LOG_ROWS / 24) random states. Goldilocks, challenges in its quadratic extension, Keccak-256 trees and
//! challenger, as in the crate's own example. Prints one JSON line for each proof: seconds to prove (the trace is made
//! before), seconds to verify, bytes.

use std::time::Instant;

use p3_air::{Air, AirBuilder, BaseAir, WindowAccess};
use p3_challenger::{HashChallenger, SerializingChallenger64};
use p3_commit::ExtensionMmcs;
use p3_dft::Radix2DitParallel;
use p3_field::PrimeCharacteristicRing;
use p3_field::extension::BinomialExtensionField;
use p3_fri::{FriParameters, TwoAdicFriPcs};
use p3_goldilocks::Goldilocks;
use p3_keccak::{Keccak256Hash, KeccakF};
use p3_keccak_air::{KeccakAir, generate_trace_rows};
use p3_matrix::dense::RowMajorMatrix;
use p3_merkle_tree::MerkleTreeMmcs;
use p3_symmetric::{CompressionFunctionFromHasher, PaddingFreeSponge, SerializingHasher};
use p3_uni_stark::{StarkConfig, prove, verify};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const PAIRS: usize = 16;

type Val = Goldilocks;
type Challenge = BinomialExtensionField<Val, 2>;
type Sponge = PaddingFreeSponge<KeccakF, 25, 17, 4>;
type FieldHash = SerializingHasher<Sponge>;
type Compress = CompressionFunctionFromHasher<Sponge, 2, 4>;
type ValMmcs = MerkleTreeMmcs<
    [Val; p3_keccak::VECTOR_LEN],
    [u64; p3_keccak::VECTOR_LEN],
    FieldHash,
    Compress,
    2,
    4,
>;
type ChallengeMmcs = ExtensionMmcs<Val, Challenge, ValMmcs>;
type Challenger = SerializingChallenger64<Val, HashChallenger<u8, Keccak256Hash, 32>>;
type Pcs = TwoAdicFriPcs<Val, Radix2DitParallel<Val>, ValMmcs, ChallengeMmcs>;
type Config = StarkConfig<Pcs, Challenge, Challenger>;

/// Pairs of Fibonacci numbers; the public values are the last row's second numbers.
struct Fibonacci;

impl<F> BaseAir<F> for Fibonacci {
    fn width(&self) -> usize {
        2 * PAIRS
    }

    fn num_public_values(&self) -> usize {
        PAIRS
    }
}

impl<AB: AirBuilder> Air<AB> for Fibonacci {
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        let last: Vec<AB::PublicVar> = builder.public_values().to_vec();
        let here: Vec<AB::Var> = main.current_slice().to_vec();
        let next: Vec<AB::Var> = main.next_slice().to_vec();
        for k in 0..PAIRS {
            let (a, b) = (here[2 * k], here[2 * k + 1]);
            let mut first = builder.when_first_row();
            first.assert_eq(a, AB::Expr::from_u64(k as u64));
            first.assert_eq(b, AB::Expr::ONE);
            let mut step = builder.when_transition();
            step.assert_eq(next[2 * k], b);
            step.assert_eq(next[2 * k + 1], a + b);
            builder.when_last_row().assert_eq(b, last[k]);
        }
    }
}

fn fibonacci_trace(rows: usize) -> RowMajorMatrix<Val> {
    let mut values = Vec::with_capacity(rows * 2 * PAIRS);
    let mut pairs: Vec<(Val, Val)> = (0..PAIRS as u64).map(|k| (Val::from_u64(k), Val::ONE)).collect();
    for _ in 0..rows {
        for (a, b) in pairs.iter_mut() {
            values.push(*a);
            values.push(*b);
            (*a, *b) = (*b, *a + *b);
        }
    }
    RowMajorMatrix::new(values, 2 * PAIRS)
}

fn config(log_blowup: usize, num_queries: usize, pow_bits: usize) -> Config {
    let sponge = Sponge::new(KeccakF {});
    let mmcs = ValMmcs::new(FieldHash::new(sponge), Compress::new(sponge), 0);
    let fri = FriParameters {
        log_blowup,
        log_final_poly_len: 5,
        max_log_arity: 3,
        num_queries,
        batch_proof_of_work_bits: 0,
        commit_proof_of_work_bits: 0,
        query_proof_of_work_bits: pow_bits,
        mmcs: ChallengeMmcs::new(mmcs.clone()),
    };
    let pcs = Pcs::new(Radix2DitParallel::default(), mmcs, fri);
    Config::new(pcs, Challenger::from_hasher(vec![], Keccak256Hash {}))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |k: usize| -> usize { arguments[k].parse().expect("a number") };
    let (task, log_rows, repeats) = (arguments[0].as_str(), number(1), number(5));
    let config = config(number(2), number(3), number(4));
    for _ in 0..repeats {
        let (began, proved, verified, bytes);
        match task {
            "fibonacci" => {
                let trace = fibonacci_trace(1 << log_rows);
                let at = trace.values.len() - 2 * PAIRS;
                let last: Vec<Val> = (0..PAIRS).map(|k| trace.values[at + 2 * k + 1]).collect();
                began = Instant::now();
                let proof = prove(&config, &Fibonacci, trace, &last).expect("a proof");
                proved = began.elapsed();
                let start = Instant::now();
                verify(&config, &Fibonacci, &proof, &last).expect("a good proof");
                verified = start.elapsed();
                bytes = postcard::to_allocvec(&proof).expect("bytes").len();
            }
            "keccak" => {
                let mut rng = SmallRng::seed_from_u64(1);
                let states = (0..(1 << log_rows) / 24).map(|_| rng.random()).collect::<Vec<_>>();
                let trace = generate_trace_rows::<Val>(states, number(2));
                began = Instant::now();
                let proof = prove(&config, &KeccakAir {}, trace, &[]).expect("a proof");
                proved = began.elapsed();
                let start = Instant::now();
                verify(&config, &KeccakAir {}, &proof, &[]).expect("a good proof");
                verified = start.elapsed();
                bytes = postcard::to_allocvec(&proof).expect("bytes").len();
            }
            other => panic!("no task {other}"),
        }
        println!(
            "{{\"prove\": {}, \"verify\": {}, \"bytes\": {}}}",
            proved.as_secs_f64(),
            verified.as_secs_f64(),
            bytes
        );
    }
}
