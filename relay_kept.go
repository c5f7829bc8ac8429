package gapless

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/relay/kept"
)

// keptDir is the directory, in the data directory, of what is known of upstream.
const keptDir = "upstream"

// kept returns the file for what is known of upstream; with Memory nothing is kept.
func (r *Relay) kept(kind string) kept.File {
	if r.cfg.Memory {
		return kept.File{}
	}
	ca := r.cfg.Upstream.CAData
	if len(ca) == 0 && r.cfg.Upstream.CAFile != "" {
		ca, _ = os.ReadFile(r.cfg.Upstream.CAFile) // the connection will say what is wrong with it
	}
	return kept.In(filepath.Join(r.cfg.DataDir, keptDir), kind, kept.SourceOf(r.cfg.Upstream.Host, ca))
}

// restored logs what of upstream is not used. It is no error: upstream is asked.
func (r *Relay) restored(ctx context.Context, errs ...error) {
	if err := errors.Join(errs...); err != nil {
		r.cfg.Logger.WarnContext(ctx, "what was kept of the API server from before is not used", slog.Any("error", err))
	}
}

// mayAskStatus returns nil if a caller may GET RelayStatusPath. Upstream decides that. When it does not
// answer, and has not decided it before, members of system:masters may who come with a client certificate:
// an API server allows them everything, whatever its roles.
func (r *Relay) mayAskStatus(req *http.Request, caller user.Info) error {
	err := r.access.Authorize(req.Context(), caller, auth.Attributes{Verb: "get", Path: RelayStatusPath})
	if err == nil || r.relay.Away() == nil {
		return err
	}
	certified, unknown := r.access.Certificate(req)
	if unknown != nil || certified == nil || !slices.Contains(certified.GetGroups(), user.SystemPrivilegedGroup) {
		return err
	}
	return nil
}
