package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gapless-io/gapless/internal/store"
)

// HistoryError says that etcd's history is not the one that the replica's log has a part of: it is
// another cluster, or an older snapshot was restored. Nothing of it is recorded.
type HistoryError struct {
	Dir   string // of the log; "" for one in memory
	Found string
	// OtherCluster says that another cluster has answered than the one that the log is of. Run returns such an error with
	// Clusters: of which cluster each server is, by its URL, as far as they answer.
	OtherCluster bool
	Clusters     map[string]uint64
}

func (e *HistoryError) Error() string {
	if e.OtherCluster {
		return e.otherCluster()
	}
	return fmt.Sprintf("etcd does not continue the history that the replica has in %q: %s; if the servers are the right ones, "+
		"stop the replica, move that directory away, and start it again: it reads the state then, and clients list again",
		e.Dir, e.Found)
}

// otherCluster is the text for another cluster: more often than the data, the URLs are wrong, and then the history is worth
// keeping.
func (e *HistoryError) otherCluster() string {
	var servers []string
	distinct := map[uint64]bool{}
	for _, url := range slices.Sorted(maps.Keys(e.Clusters)) {
		servers = append(servers, fmt.Sprintf("%s is of the cluster %x", url, e.Clusters[url]))
		distinct[e.Clusters[url]] = true
	}
	text := e.Found
	if len(servers) > 0 {
		text += ": " + strings.Join(servers, ", ")
	}
	if len(distinct) > 1 {
		return fmt.Sprintf(
			"the servers of etcd are of several clusters: %s; name the servers of one cluster only: the history in "+
				"%q is that of its cluster, and goes on", text, e.Dir)
	}
	return fmt.Sprintf(
		"etcd is not the cluster whose history the replica has in %q: %s; if the URLs are wrong, correct them, and "+
			"the history goes on; if this is the cluster to serve, stop the replica, move that directory away, and "+
			"start it again: it reads the state then, and clients list again", e.Dir, text)
}

// RefusedError says that what etcd has is not to be used, and why.
type RefusedError struct{ Cause error }

func (e *RefusedError) Error() string { return e.Cause.Error() }

// Unwrap returns Cause.
func (e *RefusedError) Unwrap() error { return e.Cause }

// defaultMaxRequest is how large a request can be if etcd has no --max-request-bytes
// (etcd server/embed DefaultMaxRequestBytes): etcd does not say which limit it has.
const defaultMaxRequest = 1536 << 10

// refusal returns what the error of a write is for the caller, if the write certainly had no effect;
// otherwise nil.
func refusal(err error, bytes int) error {
	switch {
	case errors.Is(err, rpctypes.ErrRequestTooLarge), isTooLarge(err):
		return &store.TooLargeError{What: "value", Bytes: bytes, Limit: min(defaultMaxRequest, bytes-1)}
	case errors.Is(err, rpctypes.ErrNoSpace):
		return &store.UnavailableError{Cause: fmt.Errorf("etcd has used up its space (NOSPACE): %w", err)}
	case errors.Is(err, rpctypes.ErrNoLeader):
		return &store.UnavailableError{Cause: fmt.Errorf("etcd has no quorum: %w", err)}
	case errors.Is(err, rpctypes.ErrTooManyRequests), errors.Is(err, rpctypes.ErrUnhealthy), errors.Is(err, rpctypes.ErrCorrupt):
		return &store.UnavailableError{Cause: err}
	case isAuth(err):
		return &store.UnavailableError{Cause: fmt.Errorf("etcd refuses the server's credentials: %w", err)}
	case isUnsent(err):
		return &store.UnavailableError{Cause: fmt.Errorf("etcd cannot be reached: %w", err)}
	}
	code := codes.Unknown
	if e, is := errors.AsType[rpctypes.EtcdError](err); is {
		code = e.Code()
	} else if s, is := status.FromError(err); is {
		code = s.Code()
	}
	switch code { //nolint:exhaustive // the others can come after the write
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return fmt.Errorf("etcd refuses the write: %w", err)
	}
	return nil
}

// lasts reports whether the cause for which etcd has refused a write can last while it answers reads. A write that
// was not sent, or that etcd has not answered, says nothing about the next one.
func lasts(err error) bool {
	for _, e := range []error{
		rpctypes.ErrNoSpace, rpctypes.ErrCorrupt, rpctypes.ErrTooManyRequests, rpctypes.ErrUnhealthy,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return isAuth(err)
}

// isTooLarge reports whether a message is over grpc's limit, of the client or of etcd.
func isTooLarge(err error) bool { return strings.Contains(err.Error(), "message larger than max") }

func isAuth(err error) bool {
	for _, e := range []error{
		rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserEmpty,
		rpctypes.ErrUserNotFound, rpctypes.ErrAuthOldRevision,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// isUnsent reports whether a request was not sent, because there is no connection: the texts of
// clientv3's retry policy for writes, and that of a connection that grpc cannot open.
func isUnsent(err error) bool {
	text := err.Error()
	return strings.Contains(text, "there is no address available") ||
		strings.Contains(text, "there is no connection available") ||
		strings.Contains(text, "transport: Error while dialing") ||
		strings.Contains(text, "transport: authentication handshake failed")
}

// withCause adds to an error why its context ended.
func withCause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}
