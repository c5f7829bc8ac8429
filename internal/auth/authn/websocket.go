package authn

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

const (
	// bearerProtocol begins the subprotocol of a WebSocket that carries a token: browsers can
	// set no other header.
	bearerProtocol = "base64url.bearer.authorization.k8s.io."
	protocolHeader = "Sec-Websocket-Protocol"
)

// webSocketProtocol reads a token from the subprotocols of a WebSocket. Its rules and texts are
// upstream's (request/websocket), whose package needs the module k8s.io/streaming.
type webSocketProtocol struct{ token authenticator.Token }

// AuthenticateRequest implements authenticator.Request.
func (p webSocketProtocol) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if len(r.Header[protocolHeader]) == 0 || !isWebSocket(r) {
		return nil, false, nil
	}
	token, others, err := tokenOf(r.Header[protocolHeader])
	if err != nil || token == "" {
		return nil, false, err
	}
	response, known, err := p.token.AuthenticateToken(r.Context(), token)
	if known {
		r.Header.Set(protocolHeader, strings.Join(others, ","))
	} else if err == nil {
		err = errors.New("invalid bearer token")
	}
	return response, known, err
}

// isWebSocket is upstream's streaming/pkg/httpstream/wsstream.IsWebSocketRequest.
func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") &&
		strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade")
}

// tokenOf returns the token among the subprotocols, and the others. "" is no token.
func tokenOf(lines []string) (token string, others []string, err error) {
	saw := false
	for _, line := range lines {
		for protocol := range strings.SplitSeq(line, ",") {
			protocol = strings.TrimSpace(protocol)
			encoded, is := strings.CutPrefix(protocol, bearerProtocol)
			if !is {
				others = append(others, protocol)
				continue
			}
			if saw {
				return "", nil, errors.New("multiple base64.bearer.authorization tokens specified")
			}
			saw = true
			decoded, err := base64.RawURLEncoding.DecodeString(encoded)
			if err != nil {
				return "", nil, errors.New("invalid base64.bearer.authorization token encoding")
			}
			if !utf8.Valid(decoded) {
				return "", nil, errors.New("invalid base64.bearer.authorization token")
			}
			token = string(decoded)
		}
	}
	if token != "" && len(others) == 0 { // one must be left to be answered
		return "", nil, errors.New("missing additional subprotocol")
	}
	return token, others, nil
}
