package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/kube"
	"github.com/gapless-io/gapless/status"
)

// source asks one server.
type source struct {
	client *client.Client
	path   string // where it has its status; "": that is not known yet
}

// ask returns the status of the server, with so many watches.
func (s *source) ask(ctx context.Context, watches int) ([]byte, error) {
	if s.path != "" {
		body, err := s.get(ctx, s.path, watches)
		return body, failure(err)
	}
	// A relay passes paths that it does not know on to its upstream, which may be a server that has a status, too.
	path := status.RelayPath
	body, err := s.get(ctx, path, watches)
	if outcome := kube.Classify(err); outcome == kube.OutcomeNotFound || outcome == kube.OutcomeForbidden {
		path = status.Path
		var second error
		body, second = s.get(ctx, path, watches)
		if kube.Classify(second) != kube.OutcomeNotFound {
			err = second
		}
	}
	if err == nil {
		s.path = path
	}
	return body, failure(err)
}

func (s *source) get(ctx context.Context, path string, watches int) ([]byte, error) {
	resp, err := s.client.Do(ctx, client.Request{
		Path: path, Query: url.Values{status.WatchesParameter: {strconv.Itoa(watches)}}, Accept: "application/json",
	})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// failure says what an error of the server means, and what to do.
func failure(err error) error {
	switch {
	case err == nil:
		return nil
	case kube.Classify(err) == kube.OutcomeNotFound:
		return fmt.Errorf("%w: this is neither a relay nor a replica of etcd, and no gapless server of this version: other "+
			"servers have /readyz and /metrics", err)
	case kube.Classify(err) == kube.OutcomeServerError:
		return fmt.Errorf("ask the server for its status: %w; a server that is starting has none yet (see /readyz); while the "+
			"API server behind a relay is away, use a client certificate of the group system:masters", err)
	}
	return fmt.Errorf("ask the server for its status: %w", err)
}

// report returns what an answer shows. With rates there are, of watches that it knows, events per second.
func (s *source) report(body []byte, rates *rates) (*report, error) {
	if s.path == status.RelayPath {
		of, err := decoded[status.Relay](body)
		if err != nil {
			return nil, err
		}
		return relayReport(of, rates), nil
	}
	kind, err := decoded[struct{ Etcd json.RawMessage }](body)
	if err != nil {
		return nil, err
	}
	if kind.Etcd == nil {
		of, err := decoded[status.Server](body)
		if err != nil {
			return nil, err
		}
		return serverReport(of, rates), nil
	}
	of, err := decoded[status.Replica](body)
	if err != nil {
		return nil, err
	}
	return replicaReport(of, rates), nil
}
