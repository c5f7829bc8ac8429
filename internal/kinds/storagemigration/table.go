package storagemigration

import (
	migrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func migrationTable() kinds.Table {
	named := table.Name()
	named.Format = "" // as upstream
	t := table.Of(migrationCells, named,
		table.Str("Resource", "GroupResource to migrate"), table.Str("Status", "Status of the migration"))
	t.RowsSince = 35
	return t
}

func migrationCells(o *migrationv1.StorageVersionMigration, r table.Meta) []any {
	state := "Unknown"
	for _, c := range o.Status.Conditions {
		known := c.Type == string(migrationv1.MigrationRunning) || c.Type == string(migrationv1.MigrationFailed) ||
			c.Type == string(migrationv1.MigrationSucceeded)
		if known && c.Status == metav1.ConditionTrue {
			state = c.Type
		}
	}
	return []any{r.Name, o.Spec.Resource.String(), state}
}
