package run

import "slices"

// mostBytes is how long a command may be that is filled, as xargs has it: an argument may have that many, and a command
// more.
const mostBytes = 128 << 10

// fill yields rows of as many lines as fit into a command. What is left at the end is spread over as many jobs as run at
// once.
func (t template) fill(rs rows, jobs int) rows {
	return func(yield func(row, error) bool) {
		own, perLine, perByte := t.size()
		all, size := row{grouped: true}, own
		for r, err := range rs {
			if err != nil {
				yield(row{}, err)
				return
			}
			more := perLine
			for _, v := range r.whole {
				more += perByte * len(v)
			}
			if len(all.whole) > 0 && size+more > mostBytes {
				if !yield(all, nil) {
					return
				}
				all, size = row{grouped: true}, own
			}
			all.whole, all.values = append(all.whole, r.whole...), append(all.values, r.values...)
			size += more
		}
		if len(all.whole) == 0 {
			return
		}
		each := (len(all.whole)-1)/max(jobs, 1) + 1
		columns := len(all.values) / len(all.whole)
		for part := range slices.Chunk(all.whole, each) {
			values := all.values
			if columns > 0 {
				n := min(len(part)*columns, len(values))
				values, all.values = values[:n], values[n:]
			}
			if !yield(row{whole: part, values: values, grouped: true}, nil) {
				return
			}
		}
	}
}

// size returns how many bytes the command has by itself, how many more for each line, and how many for each byte of a line.
func (t template) size() (own, perLine, perByte int) {
	for _, w := range t.words {
		whole := 0
		text := 1 // the end of the word
		for _, k := range w {
			if k.isWhole() {
				whole++
			} else {
				text += len(k.text)
			}
		}
		own += text
		perByte += whole
		if whole > 0 && (t.each || len(w) == 1) {
			perLine += text
		} else {
			perLine += whole // the spaces between them
		}
	}
	return own, perLine, perByte
}
