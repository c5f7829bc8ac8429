// Package growth measures what operations of a server cost it while one dimension of what it holds grows: objects,
// watchers, namespaces, definitions, writers, history. It tells how they grow, and writes docs/growth.md.
//
// A [Dimension] is grown from size to size by a [Player], on a server of its own. What it measures is a [Measured] of
// one [Curve] per operation, of which [Slope] is the exponent. A [Record] has the newest of each dimension, and
// [Record.Page] is the page.
package growth

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
)

// Record has what was measured last of each dimension.
type Record struct {
	Dimensions []Measured `json:"dimensions"`
}

// Measured is one dimension.
type Measured struct {
	Name    string  `json:"name"`
	Date    string  `json:"date"`
	Commit  string  `json:"commit"`
	Machine string  `json:"machine"`
	Sizes   []int   `json:"sizes"` // that were reached, rising
	Curves  []Curve `json:"curves"`
}

// Curve is one operation. Values are per operation, one for each size.
type Curve struct {
	Operation string    `json:"operation"`
	Unit      string    `json:"unit"`
	Values    []float64 `json:"values"`
}

// put adds the value of an operation at the newest size.
func (m *Measured) put(operation, unit string, value float64) {
	i := slices.IndexFunc(m.Curves, func(c Curve) bool { return c.Operation == operation })
	if i < 0 {
		i = len(m.Curves)
		m.Curves = append(m.Curves, Curve{Operation: operation, Unit: unit})
	}
	c := &m.Curves[i]
	for len(c.Values) < len(m.Sizes)-1 {
		c.Values = append(c.Values, 0) // it failed at a size before
	}
	c.Values = append(c.Values, value)
}

// ReadRecord reads a record; one that does not exist is empty.
func ReadRecord(path string) (*Record, error) {
	r := &Record{}
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("record: %w", err)
	}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("record %s: %w", path, err)
	}
	for _, m := range r.Dimensions {
		for _, c := range m.Curves {
			if len(c.Values) != len(m.Sizes) {
				return nil, fmt.Errorf("record %s: %s: %s has %d values for %d sizes",
					path, m.Name, c.Operation, len(c.Values), len(m.Sizes))
			}
		}
	}
	return r, nil
}

// Add puts a dimension into the record, in the place of what was measured of it before.
func (r *Record) Add(m Measured) {
	i := slices.IndexFunc(r.Dimensions, func(was Measured) bool { return was.Name == m.Name })
	if i < 0 {
		r.Dimensions = append(r.Dimensions, m)
		return
	}
	r.Dimensions[i] = m
}

// Write writes a record.
func (r *Record) Write(path string) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644) //nolint:gosec // it is a file of the repository
}
