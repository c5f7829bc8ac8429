package gapless

import (
	"context"
	"io"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/wire"
)

// backupFunc returns the function that writes a backup for the HTTP API. Values that are encrypted in
// the log are encrypted in the backup.
func (s *Server) backupFunc() func(context.Context, apiserver.Backup, io.Writer) error {
	return func(ctx context.Context, b apiserver.Backup, to io.Writer) error {
		log := s.backend.embedded
		if log == nil {
			return wire.BadRequest("the objects of this server are in etcd: back that up, with etcdctl snapshot save")
		}
		_, err := backup.Take(ctx, backup.Log(log), backup.Options{
			History: b.History, Server: Version().GitVersion, Encryption: encrypted.Encryption,
		}, to)
		return err
	}
}
