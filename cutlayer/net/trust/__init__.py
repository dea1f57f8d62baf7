"""Who is who: keys, certificates, and strangers who are refused."""
