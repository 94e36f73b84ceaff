// Rotary angles without rounding: a pair's frequency is a 64-bit fraction of a turn (src/rotary_table.rs); times the position,
// whole turns drop out of the product by themselves. What is left is the angle as a share of a turn.
FN float rotary_angle(gptr<const uint> table, uint pair, uint position) {
  const uint high = table[2 * pair], low = table[2 * pair + 1];
  const uint turn = high * position + umulhi(low, position);
  return float((int)turn) * 1.4629180792671596e-9f;        // 2 pi / 2^32, from -pi to pi
}
