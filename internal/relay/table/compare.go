package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// skew is by how much upstream's clock may differ from ours, in either direction, if the ages are to be
// the same.
const skew = 2 * time.Second

// DifferentError says that upstream shows objects otherwise than we do.
type DifferentError struct{ What string }

func (e *DifferentError) Error() string { return "upstream's table has other " + e.What }

// Compare returns a *DifferentError unless upstream's table is the one that a resource makes of the same
// object: its columns, and the cells and conditions of its row. Ages are compared as of the time of the
// answer.
func (s *Sample) Compare(r *kinds.Resource) error {
	if !slices.Equal(s.Columns, r.Columns) {
		return &DifferentError{"columns"}
	}
	for _, row := range s.Rows {
		o, err := wire.ParseObject(row.Object, r.Fields)
		if err != nil {
			return fmt.Errorf("the object of upstream's row: %w", err)
		}
		cells := r.Row
		if r.ListRow != nil {
			cells = r.ListRow(func(yield func(*wire.Object, error) bool) { yield(o, nil) })
		}
		if err := s.compareCells(row.Cells, cells(o)); err != nil {
			return err
		}
		var conditions any
		if r.RowConditions != nil {
			conditions = r.RowConditions(o)
		}
		same, err := sameJSON(conditions, row.Conditions)
		if err != nil {
			return err
		}
		if !same {
			return &DifferentError{"conditions of rows"}
		}
	}
	return nil
}

func (s *Sample) compareCells(theirs, ours []any) error {
	if len(theirs) != len(ours) {
		return &DifferentError{"numbers of cells"}
	}
	for i, cell := range ours {
		same, err := s.sameCell(cell, theirs[i])
		if err != nil {
			return err
		}
		if !same {
			return &DifferentError{fmt.Sprintf("cells in the column %q", s.Columns[i].Name)}
		}
	}
	return nil
}

// sameCell reports whether upstream's cell is ours.
func (s *Sample) sameCell(ours, theirs any) (bool, error) {
	if ago, is := ours.(kinds.Ago); is {
		return s.sameAge(ago, theirs), nil
	}
	return sameJSON(ours, theirs)
}

// sameAge reports whether upstream's text is that of an age at a time at which it may have been computed.
func (s *Sample) sameAge(ours kinds.Ago, theirs any) bool {
	for at := s.From.Add(-skew); !at.After(s.To.Add(skew)); at = at.Add(time.Second / 2) {
		if theirs == ours.Text(at) {
			return true
		}
	}
	return false
}

// sameJSON reports whether two values are the same for who reads them as JSON. Of what is empty or
// missing nothing is said.
func sameJSON(a, b any) (bool, error) {
	var decoded [2]any
	for i, v := range []any{a, b} {
		raw, err := json.Marshal(v)
		if err != nil {
			return false, fmt.Errorf("encode a cell: %w", err)
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if err := dec.Decode(&decoded[i]); err != nil {
			return false, fmt.Errorf("encode a cell: %w", err)
		}
		if list, is := decoded[i].([]any); is && len(list) == 0 {
			decoded[i] = nil
		}
	}
	return reflect.DeepEqual(decoded[0], decoded[1]), nil
}
