"""The machine: ELF files, the decoder, the executor and the tables that prove a run."""
