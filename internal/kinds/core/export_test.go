package core

import (
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

// WholeTables are tables that decode all of an object, of kinds whose tables decode some parts.
func WholeTables() map[string]kinds.Table {
	return map[string]kinds.Table{
		"pods":       table.Of(podCells, podTable().Columns...),
		"configmaps": table.Of(configMapCells, configMapTable().Columns...),
		"secrets":    table.Of(secretCells, secretTable().Columns...),
	}
}
