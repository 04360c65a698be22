//! What a join's build side tells the scan on its probe side: a Bloom filter (Gamma's bit vector) and bounds.
