package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Fingerprint returns a hash of the schema that Migrate creates. It changes with every
// migration of Weft and of River.
func Fingerprint() (string, error) {
	own, err := embedded()
	if err != nil {
		return "", err
	}
	migrator, err := riverMigrator(nil)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, m := range own {
		fmt.Fprintf(sum, "%s\n%s\n", m.name, m.sql)
	}
	for _, v := range migrator.AllVersions() {
		fmt.Fprintf(sum, "river %d %s\n%s\n", v.Version, v.Name, v.SQLUp)
	}
	fmt.Fprintln(sum, riverRights, databaseRights)
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}
