package gokind

import "github.com/gapless-io/gapless/internal/kinds"

// FillsFast reports whether an object, given as JSON, becomes a struct the fast way. The type of a
// view is asked for another one.
func FillsFast(of kinds.Type, object []byte) bool {
	t, is := of.(interface{ fills(object []byte) bool })
	return is && t.fills(object)
}

func (t *goType[T, P]) fills(object []byte) bool { return t.fill(P(new(T)), object) }
