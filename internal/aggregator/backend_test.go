package aggregator

import (
	"net/http"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

// TestOnlyUsersWhomHeadersCanNameArePassedOn holds that nobody becomes another user on the way.
func TestOnlyUsersWhomHeadersCanNameArePassedOn(t *testing.T) {
	for name, tt := range map[string]struct {
		user user.DefaultInfo
		ok   bool
	}{
		"usual":                   {user.DefaultInfo{Name: "jane", UID: "u", Groups: []string{"a b", "ü"}}, true},
		"space behind the name":   {user.DefaultInfo{Name: "admin "}, false},
		"space before a group":    {user.DefaultInfo{Name: "jane", Groups: []string{" system:masters"}}, false},
		"line break":              {user.DefaultInfo{Name: "jane\r\nX-Remote-Group: system:masters"}, false},
		"space in an extra value": {user.DefaultInfo{Name: "jane", Extra: map[string][]string{"a": {"b "}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := canBeNamed(&tt.user); (err == nil) != tt.ok {
				t.Errorf("%v, want it passed on: %t", err, tt.ok)
			}
		})
	}
}

// TestOnlyKnownProtocolsPass holds that no client gets a connection on which it could name users itself.
func TestOnlyKnownProtocolsPass(t *testing.T) {
	for offered, passes := range map[string]bool{"websocket": true, "SPDY/3.1": true, "h2c": false, "websocket, h2c": false} {
		h := http.Header{"Upgrade": {offered}, "Connection": {"Upgrade"}}
		if keepSwitches(h); (h.Get("Upgrade") != "") != passes || (h.Get("Connection") != "") != passes {
			t.Errorf("%s: %v", offered, h)
		}
	}
}
