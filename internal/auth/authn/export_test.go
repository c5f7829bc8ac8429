package authn

import "io"

// ParseTokens is for fuzzing.
func ParseTokens(from io.Reader) (*Tokens, error) { return parseTokens(from) }

// Verify returns the user of a token that one of the issuers has signed.
func (k *Keys) Verify(token string, issuers []string) (name string, err error) {
	c, err := k.verify(token, issuers)
	if err != nil {
		return "", err
	}
	return c.user().Name, nil
}

// TokenOf is for fuzzing.
func TokenOf(lines []string) (string, []string, error) { return tokenOf(lines) }

// Kept returns how many verified tokens are kept.
func (a *Accounts) Kept() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.fresh) + len(a.old)
}
