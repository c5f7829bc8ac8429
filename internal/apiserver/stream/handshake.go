package stream

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
)

// WantsUpgrade reports whether the request asks for a WebSocket.
func WantsUpgrade(r *http.Request) bool {
	return r.ProtoMajor == 1 && has(r.Header, "Connection", "upgrade") && has(r.Header, "Upgrade", "websocket")
}

func has(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for element := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(element), token) {
				return true
			}
		}
	}
	return false
}

// SameOrigin reports whether a WebSocket may be opened from the request's origin. A browser
// sends client certificates from any page, so a page of another host is refused;
// programs send no origin or the server's own, fabric8 before 4.6 with the port -1.
func SameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	_, host, found := strings.Cut(origin, "://")
	return found && strings.EqualFold(hostname(host), hostname(r.Host))
}

// hostname removes the port, even an invalid one.
func hostname(host string) string {
	if at := strings.LastIndexByte(host, ':'); at > strings.LastIndexByte(host, ']') {
		host = host[:at]
	}
	return host
}

// accept checks a handshake and answers it: with 101, after which the connection
// is the caller's, and reads from it return first what the client has already sent; or
// with 4xx and an error (with the codes of golang.org/x/net/websocket hybi.go).
func accept(w http.ResponseWriter, r *http.Request) (net.Conn, io.Reader, error) {
	key := strings.TrimSpace(r.Header.Get("Sec-Websocket-Key"))
	refuse := func(code int, text string) (net.Conn, io.Reader, error) {
		http.Error(w, text, code)
		return nil, nil, errors.New(text)
	}
	nonce, err := base64.StdEncoding.DecodeString(key)
	switch {
	case !r.ProtoAtLeast(1, 1):
		return refuse(http.StatusUpgradeRequired, "a WebSocket needs HTTP/1.1")
	case err != nil || len(nonce) != 16 || len(r.Header.Values("Sec-Websocket-Key")) != 1:
		return refuse(http.StatusBadRequest, "a WebSocket needs one Sec-WebSocket-Key of 16 bytes in base64")
	case r.Header.Get("Sec-Websocket-Version") != "13":
		w.Header().Set("Sec-Websocket-Version", "13")
		return refuse(http.StatusBadRequest, "only version 13 of WebSocket is spoken")
	}
	h := w.Header()
	h.Del("Content-Type") // of a body that does not come
	h.Set("Upgrade", "websocket")
	h.Set("Connection", "Upgrade")
	h.Set("Sec-Websocket-Accept", acceptance(key))
	if protocol := offered(r); protocol != "" {
		h.Set("Sec-Websocket-Protocol", protocol)
	}
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if n := buffered.Reader.Buffered(); n > 0 {
		early, _ := buffered.Peek(n) // they are there
		return conn, io.MultiReader(bytes.NewReader(bytes.Clone(early)), conn), nil
	}
	return conn, conn, nil
}

// acceptance is the answer to a key: RFC 6455 4.2.2. It needs no strong hash.
func acceptance(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// offered is the client's only offered subprotocol, or the first; upstream answers
// 400 to several. A bearer token is not a subprotocol (apiserver
// authentication/request/websocket/protocol.go): it is not sent back.
func offered(r *http.Request) string {
	for protocol := range strings.SplitSeq(strings.Join(r.Header.Values("Sec-Websocket-Protocol"), ","), ",") {
		protocol = strings.TrimSpace(protocol)
		if !strings.HasPrefix(protocol, "base64url.bearer.authorization.k8s.io.") {
			return protocol
		}
	}
	return ""
}
