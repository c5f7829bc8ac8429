package reflector

import "github.com/gapless-io/gapless/informer/internal/transition"

// pages detects a list whose pages never end.
type pages struct {
	tokens map[string]struct{}
	found  int // so far
	barren int // in a row
}

// next returns an error if a list that continues with token repeats itself or has too
// many pages without a new object. found may lag behind.
func (p *pages) next(token string, found func() int) error {
	if _, before := p.tokens[token]; before {
		return errSamePage
	}
	p.tokens[token] = struct{}{}
	if now := found(); now > p.found {
		p.found, p.barren = now, 0
		return nil
	}
	if p.barren++; p.barren < transition.BarrenLimit {
		return nil
	}
	return errBarren
}
