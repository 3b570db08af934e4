package static

import "encoding/binary"

const (
	signs = 0x8080808080808080 // turns x into x+128 in each byte
	even  = 0x00ff00ff00ff00ff
	most  = 256 // rows whose bytes fit into a sum of 16 bits
)

// addBytes adds rows of signed bytes to a sum, whose length is a multiple of 8. It adds eight bytes
// at a time, as two words of four sums with 16 bits.
func addBytes(sum []float64, table []byte, rows []int) {
	dim := len(sum)
	lanes := make([][2]uint64, dim/8) // bytes 0, 2, 4, 6 and 1, 3, 5, 7
	for len(rows) > 0 {
		part := rows[:min(len(rows), most)]
		rows = rows[len(part):]
		clear(lanes)
		for _, r := range part {
			row := table[r*dim:][:dim]
			for i := range lanes {
				x := binary.LittleEndian.Uint64(row) ^ signs
				row = row[8:]
				lanes[i][0] += x & even
				lanes[i][1] += x >> 8 & even
			}
		}
		for i := range sum {
			lane := lanes[i/8][i%2] >> (i % 8 / 2 * 16) & 0xffff
			sum[i] += float64(int(lane) - 128*len(part))
		}
	}
}
