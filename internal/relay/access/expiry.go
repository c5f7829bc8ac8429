package access

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// expiry returns when a token ends according to itself, if it is a JWT with a time; zero if not. Nobody
// has verified it here: it can only shorten how long the answer of upstream, who has, is used.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	const last = 1 << 40 // seconds, far beyond any time
	if json.Unmarshal(payload, &claims) != nil || claims.Expiry <= 0 || claims.Expiry > last {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expiry), 0)
}
