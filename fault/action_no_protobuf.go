package fault

import (
	"net/http"
	"strings"

	"github.com/gapless-io/gapless/internal/wire"
)

// NoProtobuf is a server that has no protobuf, like one for custom resources: it answers in
// another form if the client accepts one, and else refuses with 406; bodies with 415.
type NoProtobuf struct{}

// Serve implements Action.
func (*NoProtobuf) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if strings.Contains(r.Header.Get("Content-Type"), "protobuf") {
		Refuse(w, wire.UnsupportedMediaType([]string{"application/json", "application/yaml"}))
		return
	}
	var kept []string
	offered := strings.Join(r.Header.Values("Accept"), ",")
	for media := range strings.SplitSeq(offered, ",") {
		if !strings.Contains(media, "protobuf") {
			kept = append(kept, strings.TrimSpace(media))
		}
	}
	if len(kept) == 0 {
		Refuse(w, wire.NotAcceptable([]string{"application/json", "application/yaml"}))
		return
	}
	plain := r.WithContext(r.Context())
	plain.Header = r.Header.Clone()
	if offered != "" {
		plain.Header.Set("Accept", strings.Join(kept, ","))
	}
	next.ServeHTTP(w, plain)
}

func (*NoProtobuf) check(*Rule, host) error { return nil }
