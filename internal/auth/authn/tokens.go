package authn

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Tokens are the static tokens of a file. They are read once, at the start, as upstream's.
type Tokens struct {
	// responses has them by their hash, so that looking one up takes no time that tells how much
	// of it is right.
	responses map[[sha256.Size]byte]*authenticator.Response
}

// ReadTokens reads a file of upstream's --token-auth-file: lines of token, user, uid and, optionally,
// groups in quotes, separated by commas. Lines with an empty token are ignored. Of two lines
// with one token upstream takes the later; here that is an error, as one of them is a mistake.
func ReadTokens(path string) (*Tokens, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read static tokens: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	tokens, err := parseTokens(file)
	if err != nil {
		return nil, fmt.Errorf("read static tokens from %s: %w", path, err)
	}
	return tokens, nil
}

func parseTokens(from io.Reader) (*Tokens, error) {
	t := &Tokens{responses: map[[sha256.Size]byte]*authenticator.Response{}}
	reader := csv.NewReader(from)
	reader.FieldsPerRecord = -1
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			if parse, is := errors.AsType[*csv.ParseError](err); is { // without what the line holds
				return nil, fmt.Errorf("line %d, column %d: %w", parse.Line, parse.Column, parse.Err)
			}
			return nil, err
		}
		line, _ := reader.FieldPos(0)
		if len(record) < 3 {
			return nil, fmt.Errorf(
				"line %d has %d columns, want at least 3: token, user name, user uid, and optionally the groups in quotes",
				line, len(record))
		}
		if record[0] == "" {
			continue
		}
		hash := sha256.Sum256([]byte(record[0]))
		if _, twice := t.responses[hash]; twice {
			return nil, fmt.Errorf("line %d has the token of an earlier line", line)
		}
		u := &user.DefaultInfo{Name: record[1], UID: record[2]}
		if len(record) >= 4 {
			u.Groups = strings.Split(record[3], ",")
		}
		t.responses[hash] = &authenticator.Response{User: withGroup(u)}
	}
}

// AuthenticateToken implements authenticator.Token.
func (t *Tokens) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	kept, known := t.responses[sha256.Sum256([]byte(token))]
	if !known {
		return nil, false, nil
	}
	response := *kept // its reader writes the audiences
	return &response, true, nil
}
