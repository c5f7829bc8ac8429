package past

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// contextLines is how many equal lines stand around each difference, as in diff -u.
const contextLines = 3

// Unified returns the unified diff of two texts, empty if they are equal. Lines that are in both texts once are the
// places where they are held together, as in the patience diff: it takes n log n for n lines, and is not always the
// shortest.
func Unified(oldName, newName string, before, after []byte) []byte {
	if bytes.Equal(before, after) {
		return nil
	}
	x, y := lines(before), lines(after)
	var out bytes.Buffer
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", oldName, newName)
	for _, part := range hunks(edits(matches(x, y), x, y)) {
		writeHunk(&out, part)
	}
	return out.Bytes()
}

// lines splits a text; each line has its end, the last one maybe none.
func lines(text []byte) []string {
	var all []string
	for line := range bytes.Lines(text) {
		all = append(all, string(line))
	}
	return all
}

// pair is a line that is in both texts: x and y are its places.
type pair struct{ x, y int }

// run is n lines that are equal, from two places on.
type run struct {
	pair

	n int
}

// matches returns what is equal, in order; the last run is empty, at the ends.
func matches(x, y []string) []run {
	done := pair{}
	var all []run
	for _, m := range anchors(x, y) {
		if m.x < done.x {
			continue // the run before has it
		}
		start := m
		for start.x > done.x && start.y > done.y && x[start.x-1] == y[start.y-1] {
			start.x--
			start.y--
		}
		end := m
		for end.x < len(x) && end.y < len(y) && x[end.x] == y[end.y] {
			end.x++
			end.y++
		}
		if start.x < end.x || end == (pair{len(x), len(y)}) {
			all = append(all, run{start, end.x - start.x})
		}
		done = end
	}
	return all
}

// anchors returns the lines that are in both texts once, and stand in the same order in both; in front of them the
// beginning, behind them the end.
func anchors(x, y []string) []pair {
	const many = 2
	at := make(map[string]*[2]int, len(x)) // how often a line is in x, and in y
	count := func(lines []string, side int) {
		for _, line := range lines {
			if at[line] == nil {
				at[line] = new([2]int)
			}
			at[line][side] = min(at[line][side]+1, many)
		}
	}
	count(x, 0)
	count(y, 1)
	once := [2]int{1, 1}
	inY := make(map[string]int)
	for j, line := range y {
		if *at[line] == once {
			inY[line] = j
		}
	}
	var both []pair
	for i, line := range x {
		if *at[line] == once {
			both = append(both, pair{i, inY[line]})
		}
	}
	return slices.Concat([]pair{{0, 0}}, rising(both), []pair{{len(x), len(y)}})
}

// rising returns the longest part of pairs, which rise in x, that also rises in y: by patience sorting.
func rising(all []pair) []pair {
	var piles []int // the last pair of the best part of each length
	before := make([]int, len(all))
	for i, p := range all {
		k, _ := slices.BinarySearchFunc(piles, p.y, func(pile, y int) int { return all[pile].y - y })
		before[i] = -1
		if k > 0 {
			before[i] = piles[k-1]
		}
		if k == len(piles) {
			piles = append(piles, i)
		} else {
			piles[k] = i
		}
	}
	part := make([]pair, len(piles))
	for k, i := len(piles)-1, lastOf(piles); k >= 0; k, i = k-1, before[i] {
		part[k] = all[i]
	}
	return part
}

func lastOf(piles []int) int {
	if len(piles) == 0 {
		return -1
	}
	return piles[len(piles)-1]
}

// edit is a line of a diff: it is in both texts (' '), in the old one ('-'), or in the new one ('+').
type edit struct {
	mark byte
	line string
	at   pair
}

// edits makes the new text of the old one.
func edits(equal []run, x, y []string) []edit {
	all := make([]edit, 0, max(len(x), len(y)))
	var at pair
	for _, m := range equal {
		for ; at.x < m.x; at.x++ {
			all = append(all, edit{'-', x[at.x], at})
		}
		for ; at.y < m.y; at.y++ {
			all = append(all, edit{'+', y[at.y], at})
		}
		for ; at.x < m.x+m.n; at.x, at.y = at.x+1, at.y+1 {
			all = append(all, edit{' ', x[at.x], at})
		}
	}
	return all
}

// hunks returns the parts of a diff that have differences, with the equal lines around them.
func hunks(all []edit) [][]edit {
	var parts [][]edit
	begin, end := 0, -1 // of the part; no part yet
	for i, e := range all {
		if e.mark == ' ' {
			continue
		}
		if from := max(0, i-contextLines); end < 0 || from > end {
			if end >= 0 {
				parts = append(parts, all[begin:end])
			}
			begin = from
		}
		end = min(len(all), i+1+contextLines)
	}
	if end >= 0 {
		parts = append(parts, all[begin:end])
	}
	return parts
}

func writeHunk(out *bytes.Buffer, part []edit) {
	var n pair // lines in the old text, and in the new one
	for _, e := range part {
		if e.mark != '+' {
			n.x++
		}
		if e.mark != '-' {
			n.y++
		}
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span(part[0].at.x, n.x), span(part[0].at.y, n.y))
	for _, e := range part {
		out.WriteByte(e.mark)
		out.WriteString(e.line)
		if e.line[len(e.line)-1] != '\n' {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// span is n lines from a place on, as a unified diff writes it.
func span(from, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return strconv.Itoa(from + 1)
	}
	return fmt.Sprintf("%d,%d", from+1, n)
}
