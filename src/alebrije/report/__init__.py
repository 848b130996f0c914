"""Components of the report: tables, charts, galleries, verdict sentences, the page itself. It names no instrument."""
