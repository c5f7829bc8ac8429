package mix

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gapless-io/gapless/conformance/differential/script"
)

// Move is a few lines of a script that stay together.
type Move struct {
	// Of says what is written: the method and the resource. It is the name of its case.
	Of string
	// Lines are as in the file of a script.
	Lines []string
}

// Script is the script of moves. Each begins a case.
func Script(name string, moves []Move) (script.Script, error) {
	s := script.Script{Name: name}
	line := 1
	for _, m := range moves {
		one, err := script.Parse(name, "case "+m.Of+"\n"+strings.Join(m.Lines, "\n"))
		if err != nil {
			return script.Script{}, fmt.Errorf("a move of %s: %w", m.Of, err)
		}
		c := one.Cases[0]
		for i := range c.Steps {
			c.Steps[i].Line += line - 1
		}
		s.Cases = append(s.Cases, c)
		line += len(m.Lines)
	}
	return s, nil
}

// Text is a file with the same steps, at the same lines.
func Text(moves []Move) string {
	lines := []string{"case mix"}
	for _, m := range moves {
		lines = append(lines, m.Lines...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// Moves takes the file of a script apart: each step is a move.
func Moves(name, text string) ([]Move, error) {
	s, err := script.Parse(name, text)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var all []Move
	for _, c := range s.Cases {
		for _, step := range c.Steps {
			end := step.Line
			for end < len(lines) && strings.HasPrefix(lines[end], " ") {
				end++
			}
			all = append(all, Move{Of: "step of " + c.Name, Lines: lines[step.Line-1 : end]})
		}
	}
	return all, nil
}

// Kept are the variables that scripts use before they keep something in them.
func Kept() map[string]string {
	all := map[string]string{ // not variables: directives of strategic merge patches
		"patch": "$patch", "set": "$set", "delete": "$delete", "retain": "$retain",
	}
	for i := range keeps {
		all[fmt.Sprintf("obj%d", i)] = `{}`
		all[fmt.Sprintf("rv%d", i)], all[fmt.Sprintf("uid%d", i)] = "1", "0"
	}
	return all
}

// Shrink leaves out moves as long as what is left still fails, most of them first. The moves before first stay. It ends
// when no single move can be left out, or when fails says so.
func Shrink(moves []Move, first int, fails func(moves []Move) (still, more bool)) []Move {
	for size := (len(moves) - first + 1) / 2; size > 0; {
		left := false
		for at := len(moves) - size; at > first-size; at -= size {
			from := max(at, first)
			fewer := slices.Concat(moves[:from], moves[min(at+size, len(moves)):])
			still, more := fails(fewer)
			if still {
				moves, left = fewer, true
			}
			if !more {
				return moves
			}
		}
		if size > 1 {
			size /= 2
		} else if !left {
			break
		}
	}
	return moves
}

func encode(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // values are made of maps, lists and texts
	}
	return string(raw)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
