//! Miden VM at the loop that `benchmarks/peers/peers.py` gives it:
//!
//!     tailbite-peer-miden LOG REPEATS [default|comparable]
//!
//! A Fibonacci loop in Miden assembly, modulo p = 2^64 - 2^32 + 1, with as many turns as fit in a trace of 2^LOG rows.
//! Executing a block of code also fills rows of the hasher, so a turn makes several steps: the least power of two at
//! which the processor and not the hasher is the longest part of the trace. Prints one JSON line for each proof:
//! seconds to prove (execution, trace and proof), seconds to verify, bytes, cycles.
//!
//! default: `ProvingOptions::default()`, which is Blake3 with 256 bits, blowup 8, 27 queries, 16 bits of proof of work
//! before the queries (12 before DEEP, 4 before each fold), challenges in the quadratic extension. The library calls
//! this 96 bits, conjectured, and its other hash functions have the same parameters; it has no proven level.
//!
//! comparable: the same with 102 queries, about 98 proven bits in the unique-decoding regime at 2^20 rows, by our own
//! estimate: 100.6 for the queries, about 98 for LogUp, which the quadratic extension bounds whatever the queries. The
//! default has about 55 by the same estimate, in the list-decoding regime. Not an option of the library: it is the same
//! prover and verifier below its interface. The transcript still names 27 queries, a constant of the library.

use std::time::Instant;

use miden_crypto::Felt;
use miden_crypto::stark::challenger::CanObserve;
use miden_crypto::stark::fri::PcsParams;
use miden_crypto::stark::lmcs::Lmcs;
use miden_crypto::stark::proof::StarkProof;
use miden_crypto::stark::{StarkConfig, verifier::verify_single};
use miden_prover::{ProcessorAir, config, prove_stark};
use miden_vm::field::QuadFelt;
use miden_vm::trace::{TraceLenSummary, build_trace};
use miden_vm::{
    Assembler, DefaultHost, ExecutionOptions, ExecutionTrace, FastProcessor, Program, ProvingOptions, StackInputs,
    advice::AdviceInputs, prove_sync, verify,
};
use serde::de::DeserializeOwned;

const P: u128 = (1 << 64) - (1 << 32) + 1;
const QUERIES: usize = 102;

/// Stack: two Fibonacci numbers and the number of turns left.
fn program(steps: usize) -> Program {
    let source = format!(
        "begin push.1 while.true repeat.{steps} swap dup.1 add end \
         movup.2 sub.1 dup movdn.3 neq.0 end end"
    );
    Assembler::default().assemble_program(source).expect("a program")
}

fn felt(x: u64) -> Felt {
    Felt::new(x).expect("a canonical element")
}

fn inputs(turns: usize) -> StackInputs {
    StackInputs::new(&[felt(1), felt(0), felt(turns as u64)]).expect("stack inputs")
}

fn execute(program: &Program, turns: usize) -> ExecutionTrace {
    let processor =
        FastProcessor::new_with_options(inputs(turns), AdviceInputs::default(), ExecutionOptions::default())
            .expect("a processor");
    let run = processor.execute_trace_inputs_sync(program, &mut DefaultHost::default()).expect("an execution");
    build_trace(run).expect("a trace")
}

/// The program, its number of turns and the lengths of its trace: the most turns that fit in `rows`.
fn fit(rows: usize) -> (Program, usize, usize, TraceLenSummary) {
    for log_steps in 0..12 {
        let steps = 1 << log_steps;
        let program = program(steps);
        let lengths = |turns: usize| *execute(&program, turns).trace_len_summary();
        let (short, long) = (lengths(10), lengths(20));
        let per_turn = (long.main_trace_len() - short.main_trace_len()) / 10;
        let hasher = (long.chiplets_trace_len().trace_len() - short.chiplets_trace_len().trace_len()) / 10;
        if hasher > per_turn {
            continue;
        }
        let mut turns = 10 + (rows - short.main_trace_len()) / per_turn;
        loop {
            let found = lengths(turns);
            if found.trace_len() <= rows {
                assert_eq!(found.padded_trace_len(), rows, "rows of the trace");
                return (program, steps, turns, found);
            }
            turns -= 1;
        }
    }
    panic!("the hasher is always longer");
}

/// Prove and verify with the parameters of the default, but QUERIES queries.
fn comparable(program: &Program, turns: usize) -> (f64, f64, usize, ExecutionTrace) {
    let d = config::pcs_params();
    let params = PcsParams::new(
        d.log_blowup(),
        config::LOG_FOLDING_ARITY,
        7,
        config::FOLDING_POW_BITS,
        config::DEEP_POW_BITS,
        QUERIES,
        d.query_pow_bits(),
    );
    let config = config::blake3_256_config(params.expect("parameters"));
    let began = Instant::now();
    let trace = execute(program, turns);
    let matrix = trace.to_row_major_matrix();
    let (public, kernel) = trace.public_inputs().to_air_inputs();
    let proof = prove_stark(&config, &matrix, &public, &[&kernel]).expect("a proof");
    let proved = began.elapsed().as_secs_f64();
    let start = Instant::now();
    check(&config, &public, &kernel, &proof);
    (proved, start.elapsed().as_secs_f64(), proof.len(), trace)
}

/// As the library verifies.
fn check<SC>(config: &SC, public: &[Felt], kernel: &[Felt], bytes: &[u8])
where
    SC: StarkConfig<Felt, QuadFelt>,
    <SC::Lmcs as Lmcs>::Commitment: DeserializeOwned,
{
    let proof: StarkProof<Felt, QuadFelt, SC> = bincode::deserialize(bytes).expect("a proof");
    let mut challenger = config.challenger();
    config::observe_protocol_params(&mut challenger);
    challenger.observe_slice(public);
    config::observe_var_len_public_inputs(&mut challenger, &[kernel], &[4]);
    verify_single(config, &ProcessorAir, public, &[kernel], &proof, challenger).expect("a good proof");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |k: usize| -> usize { arguments[k].parse().expect("a number") };
    let (log, repeats) = (number(0), number(1));
    let level = arguments.get(2).map_or("default", |x| x.as_str());
    let (program, steps, turns, lengths) = fit(1 << log);
    let (mut a, mut b) = (1u128, 0u128);
    for _ in 0..steps * turns {
        (a, b) = ((a + b) % P, a);
    }
    eprintln!(
        "{steps} steps in a turn, {turns} turns; rows: processor {}, chiplets {}, range checks {}, all {}",
        lengths.main_trace_len(),
        lengths.chiplets_trace_len().trace_len(),
        lengths.range_trace_len(),
        lengths.padded_trace_len()
    );
    for _ in 0..repeats {
        let (proved, verified, bytes, outputs);
        match level {
            "default" => {
                let began = Instant::now();
                let proof;
                (outputs, proof) = prove_sync(
                    &program,
                    inputs(turns),
                    AdviceInputs::default(),
                    &mut DefaultHost::default(),
                    ExecutionOptions::default(),
                    ProvingOptions::default(),
                )
                .expect("a proof");
                proved = began.elapsed().as_secs_f64();
                bytes = proof.to_bytes().len();
                let start = Instant::now();
                verify(program.to_info(), inputs(turns), outputs, proof).expect("a good proof");
                verified = start.elapsed().as_secs_f64();
            }
            "comparable" => {
                let trace;
                (proved, verified, bytes, trace) = comparable(&program, turns);
                outputs = *trace.stack_outputs();
            }
            other => panic!("no level {other}"),
        }
        assert_eq!(outputs.get_num_elements(2), [felt(a as u64), felt(b as u64)], "Fibonacci numbers");
        println!(
            "{{\"prove\": {proved}, \"verify\": {verified}, \"bytes\": {bytes}, \"cycles\": {}}}",
            lengths.main_trace_len()
        );
    }
}
