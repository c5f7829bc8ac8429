package jsontree

import "github.com/gapless-io/gapless/kube/scan"

// Reader reads a JSON object as DecodePlain does, value by value, for a caller that knows what is to be in it. That caller
// enters objects and arrays by the methods of a [scan.Scanner], and looks for duplicate names itself.
type Reader struct{ decoder }

// NewReader returns a reader of a body. The strings that it returns share the memory of one copy of the body.
func NewReader(body []byte) Reader {
	return Reader{decoder{Scanner: scan.Scanner{Data: body, MaxDepth: maxDepth}, text: string(body)}}
}

// Name reads the name of a member. Errors: as those of DecodePlain, but not always ErrUnusual.
func (r *Reader) Name() (string, error) {
	t, err := r.Key()
	if err != nil {
		return "", err
	}
	return r.string(t)
}

// Text reads a string. Errors: as those of Name; that it is none.
func (r *Reader) Text() (string, error) {
	t, err := r.Quoted()
	if err != nil {
		return "", err
	}
	return r.string(t)
}

// Value reads any value. Errors: as those of Name.
func (r *Reader) Value() (any, error) { return r.value() }

// Ended reports whether nothing but white space is left.
func (r *Reader) Ended() bool { return r.Peek() == 0 && r.Pos == len(r.Data) }
